// What NCCL relies on in a net plugin, point by point: grouped receives. For each tag, the n-th message sent
// with it goes into the n-th buffer posted with it.
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cstdlib>
#include <deque>
#include <list>
#include <map>
#include <numeric>
#include <random>

#include "base/format.h"
#include "base/randomized_test.h"
#include "net_plugin/limits.h"
#include "tests/process/net_harness.h"

namespace tombolo::net_plugin::test {
namespace {

class NetGroups : public testing::TestWithParam<int> {};

INSTANTIATE_TEST_SUITE_P(Abi, NetGroups, abi_versions(),
                         [](const auto& test) { return fmt::format("v{}", test.param); });

using Bytes = std::vector<std::byte>;

/// The n-th message with a tag.
Bytes message(int tag, std::size_t number, std::size_t size) {
  return pattern(size, static_cast<unsigned>(tag) * 100003U + static_cast<unsigned>(number));
}

/// A group of receives under way, and what should come.
struct Group {
  void* request = nullptr;
  std::vector<Bytes> buffers, wanted;
};

Group receive(Side& side, void* comm, const std::vector<int>& tags, std::vector<Bytes> wanted) {
  Group group;
  for (const Bytes& one : wanted) group.buffers.emplace_back(one.size() + 1);
  group.wanted = std::move(wanted);
  group.request = side.receive_group(comm, group.buffers, tags);
  return group;
}

void require_met(Group& group, std::span<const std::size_t> sizes) {
  for (std::size_t i = 0; i < group.wanted.size(); ++i) {
    REQUIRE(sizes[i] == group.wanted[i].size());
    group.buffers[i].resize(sizes[i]);
    REQUIRE(group.buffers[i] == group.wanted[i]);
  }
}

void finish(Side& side, Group& group) {
  require_met(group, side.finish_group(group.request, group.wanted.size()));
}

std::vector<int> tags_below(std::size_t count) {
  std::vector<int> tags(count);
  std::iota(tags.begin(), tags.end(), 0);
  return tags;
}

TEST_P(NetGroups, AGroupMeetsItsSendsInAnyOrder) {
  const unsigned seed = test_seed();
  // All orders of up to four, and some of eight; both ends make the same list.
  std::vector<std::vector<int>> orders;
  for (std::size_t count = 2; count <= 4; ++count) {
    auto order = tags_below(count);
    do orders.push_back(order);
    while (std::next_permutation(order.begin(), order.end()));
  }
  std::mt19937 random(seed);
  for (int i = 0; i < 12; ++i) {
    orders.push_back(tags_below(kMaxReceives));
    std::ranges::shuffle(orders.back(), random);
  }
  const auto size_of = [](std::size_t round, int tag) {
    return round % 5 == 0 ? 60'000 + static_cast<std::size_t>(tag)
                          : round * 3 + static_cast<std::size_t>(tag);
  };
  Pair::run(
      GetParam(),
      [&](Side& side, void* comm, Channel& channel) {
        std::deque<Bytes> data;
        std::vector<void*> requests;
        for (std::size_t round = 0; round < orders.size(); ++round) {
          for (const int tag : orders[round])
            requests.push_back(
                side.send_with(tag, comm, data.emplace_back(message(tag, round, size_of(round, tag)))));
          // In another order than they were posted in.
          std::ranges::reverse(requests);
          for (void* request : requests) side.finish(request);
          requests.clear();
        }
        channel.wait();
      },
      [&](Side& side, void* comm, Channel& channel) {
        for (std::size_t round = 0; round < orders.size(); ++round) {
          const auto tags = tags_below(orders[round].size());
          std::vector<Bytes> wanted;
          for (const int tag : tags) wanted.push_back(message(tag, round, size_of(round, tag)));
          Group group = receive(side, comm, tags, std::move(wanted));
          finish(side, group);
        }
        channel.signal();
      });
}

// As with PXN, where one rank sends for several.
TEST_P(NetGroups, EqualTagsMeetInTheOrderOfTheirSlots) {
  const std::vector<std::size_t> groups{8, 1, 3, 8, 2};
  Pair::run(
      GetParam(),
      [&](Side& side, void* comm, Channel& channel) {
        std::deque<Bytes> data;
        std::vector<void*> requests;
        for (std::size_t i = 0; i < 22; ++i)
          requests.push_back(side.send_with(6, comm, data.emplace_back(message(6, i, i * 900))));
        for (void* request : requests) side.finish(request);
        channel.wait();
      },
      [&](Side& side, void* comm, Channel& channel) {
        std::vector<Group> posted;
        std::size_t number = 0;
        for (const std::size_t count : groups) {
          std::vector<Bytes> wanted;
          for (std::size_t i = 0; i < count; ++i, ++number)
            wanted.push_back(message(6, number, number * 900));
          posted.push_back(receive(side, comm, std::vector<int>(count, 6), std::move(wanted)));
        }
        for (auto group = posted.rbegin(); group != posted.rend(); ++group) finish(side, *group);
        channel.signal();
      });
}

TEST_P(NetGroups, ATagMayRunEightStepsAheadOfTheOthers) {
  constexpr std::size_t kSteps = 8, kSize = 5000;
  Pair::run(
      GetParam(),
      [&](Side& side, void* comm, Channel& channel) {
        std::deque<Bytes> data;
        std::vector<void*> requests;
        for (std::size_t step = 0; step < kSteps; ++step)
          requests.push_back(side.send_with(1, comm, data.emplace_back(message(1, step, kSize))));
        channel.signal();
        channel.wait();  // all groups are posted, and none is done
        for (const int tag : {2, 0}) {
          for (std::size_t step = 0; step < kSteps; ++step)
            requests.push_back(side.send_with(tag, comm, data.emplace_back(message(tag, step, kSize))));
        }
        for (void* request : requests) REQUIRE(side.finish(request) == kSize);
        channel.wait();
      },
      [&](Side& side, void* comm, Channel& channel) {
        channel.wait();
        std::vector<Group> groups;
        for (std::size_t step = 0; step < kSteps; ++step)
          groups.push_back(
              receive(side, comm, {0, 1, 2},
                      {message(0, step, kSize), message(1, step, kSize), message(2, step, kSize)}));
        std::vector<std::size_t> sizes(3);
        for (int i = 0; i < 100; ++i)
          for (Group& group : groups) EXPECT_FALSE(side.poll_group(group.request, sizes));
        channel.signal();
        for (Group& group : groups) finish(side, group);
        channel.signal();
      });
}

TEST_P(NetGroups, ThirtyTwoGroupsOfEightAreInFlight) {
  constexpr std::size_t kGroups = abi::NCCL_NET_MAX_REQUESTS;
  Pair::run(
      GetParam(),
      [&](Side& side, void* comm, Channel& channel) {
        channel.wait();
        std::deque<Bytes> data;
        std::vector<void*> requests;
        for (std::size_t i = 0; i < kGroups; ++i)
          for (int tag = 0; tag < kMaxReceives; ++tag)
            requests.push_back(side.send_with(tag, comm, data.emplace_back(message(tag, i, 700))));
        for (void* request : requests) side.finish(request);
        channel.wait();
      },
      [&](Side& side, void* comm, Channel& channel) {
        std::vector<Group> groups;
        for (std::size_t i = 0; i < kGroups; ++i) {
          std::vector<Bytes> wanted;
          for (int tag = 0; tag < kMaxReceives; ++tag) wanted.push_back(message(tag, i, 700));
          groups.push_back(receive(side, comm, tags_below(kMaxReceives), std::move(wanted)));
        }
        channel.signal();
        for (Group& group : groups) finish(side, group);
        channel.signal();
      });
}

/// What both ends of a random exchange draw from the seed: the groups of the receiver, in order.
std::vector<std::vector<int>> random_groups(unsigned seed) {
  std::mt19937 random(seed);
  const auto tags = 1 + random() % 6;
  std::vector<std::vector<int>> groups(60);
  for (auto& group : groups) {
    const std::array<std::size_t, 4> counts{1, 8, 3, 1 + random() % 8};
    group.resize(counts[random() % counts.size()]);
    for (int& tag : group) tag = static_cast<int>(random() % tags);
  }
  return groups;
}
std::size_t random_size(unsigned seed, int tag, std::size_t number) {
  std::mt19937 random(seed + static_cast<unsigned>(tag) * 131U + static_cast<unsigned>(number) * 7U);
  const auto kind = random();
  return kind % 8 == 0 ? random() % 150'000 : random() % 600;
}

TEST_P(NetGroups, RandomGroupsArriveByteForByte) {
  const unsigned seed = test_seed();
  const auto groups = random_groups(seed);
  Pair::run(
      GetParam(),
      [&](Side& side, void* comm, Channel& channel) {
        std::mt19937 random(seed + 1);
        std::map<int, std::pair<std::size_t, std::size_t>> left;  // by tag: next, count
        for (const auto& group : groups)
          for (const int tag : group) ++left[tag].second;
        struct Flying {
          void* request;
          Bytes data;
        };
        std::list<Flying> flying;
        const Deadline deadline = Deadline::after(kPatience * static_cast<int>(times_as_many()));
        while (!left.empty() || !flying.empty()) {
          REQUIRE(!deadline.passed());
          if (!left.empty() && flying.size() < 64 && random() % 3 != 0) {
            auto at = std::next(left.begin(), static_cast<std::ptrdiff_t>(random() % left.size()));
            auto& [next, count] = at->second;
            Flying one{nullptr, message(at->first, next, random_size(seed, at->first, next))};
            REQUIRE(side.plugin().isend(comm, one.data.data(), one.data.size(), at->first, nullptr,
                                        &one.request) == abi::ncclSuccess);
            if (one.request == nullptr) continue;
            flying.push_back(std::move(one));
            if (++next == count) left.erase(at);
          } else if (!flying.empty()) {
            auto at = std::next(flying.begin(), static_cast<std::ptrdiff_t>(random() % flying.size()));
            std::size_t size = 0;
            if (!side.poll(at->request, size)) continue;
            REQUIRE(size == at->data.size());
            flying.erase(at);
          }
        }
        channel.wait();
      },
      [&](Side& side, void* comm, Channel& channel) {
        std::mt19937 random(seed + 2);
        std::map<int, std::size_t> next;
        std::list<Group> flying;
        const Deadline deadline = Deadline::after(kPatience * static_cast<int>(times_as_many()));
        for (std::size_t posted = 0, done = 0; done < groups.size();) {
          REQUIRE(!deadline.passed());
          if (posted < groups.size() && flying.size() < 1 + random() % 30) {
            std::vector<Bytes> wanted;
            for (const int tag : groups[posted]) {
              const std::size_t number = next[tag]++;
              wanted.push_back(message(tag, number, random_size(seed, tag, number)));
            }
            flying.push_back(receive(side, comm, groups[posted++], std::move(wanted)));
            continue;
          }
          auto at = std::next(flying.begin(), static_cast<std::ptrdiff_t>(random() % flying.size()));
          std::vector<std::size_t> sizes(at->wanted.size());
          if (!side.poll_group(at->request, sizes)) continue;
          require_met(*at, sizes);
          flying.erase(at);
          ++done;
        }
        channel.signal();
      });
}

TEST_P(NetGroups, WhatWasSentWithEveryTagBeforeCloseSendArrives) {
  constexpr std::size_t kSize = 300'000;
  std::atomic<bool> passed = false;
  Pair::run(
      GetParam(),
      [&](Side& side, void* comm, Channel&) {
        std::deque<Bytes> data;
        std::vector<void*> requests;
        for (const int tag : {3, 1, 2, 0})
          requests.push_back(side.send_with(tag, comm, data.emplace_back(message(tag, 0, kSize))));
        for (void* request : requests) REQUIRE(side.finish(request) == kSize);
        // Closed at once by Pair, and the process ends.
      },
      [&](Side& side, void* comm, Channel&) {
        std::vector<Bytes> wanted;
        for (int tag = 0; tag < 4; ++tag) wanted.push_back(message(tag, 0, kSize));
        Group group = receive(side, comm, tags_below(4), std::move(wanted));
        finish(side, group);
        passed = true;
      });
  EXPECT_TRUE(passed);
}

TEST_P(NetGroups, AKilledPeerFailsAGroupInBoundedTime) {
  Peer peer([&](Channel& channel) {
    Side side(GetParam());
    HandleMemory handle{};
    channel.receive(handle.data(), handle.size());
    void* comm = side.connect(handle);
    const Bytes data = message(0, 0, 10);
    for (const int tag : {0, 1}) side.finish(side.send_with(tag, comm, data));
    channel.signal();
    channel.wait();  // until killed
  });
  Side side(GetParam());
  HandleMemory handle{};
  void* listen_comm = side.listen(handle);
  peer.channel().send(handle.data(), handle.size());
  void* comm = side.accept(listen_comm);
  side.plugin().close_listen(listen_comm);
  // The first group ends; of the second, one message is on a lane that is there, and one on a lane that is
  // not.
  std::vector<Bytes> first(2, Bytes(20)), second(2, Bytes(20));
  side.finish_group(side.receive_group(comm, first, std::vector<int>{0, 1}), 2);
  peer.channel().wait();
  void* request = side.receive_group(comm, second, std::vector<int>{1, 2});
  std::vector<std::size_t> sizes(2);
  EXPECT_FALSE(side.poll_group(request, sizes));
  peer.kill();
  take_log();
  EXPECT_EQ(side.finish_badly(request), abi::ncclRemoteError);
  const auto lines = take_log();
  ASSERT_EQ(lines.size(), 1U);
  EXPECT_NE(lines[0].find("tag"), std::string::npos) << lines[0];
  void* later = nullptr;
  EXPECT_EQ(side.plugin().receive(comm, first[0].data(), 8, nullptr, &later), abi::ncclRemoteError);
  side.plugin().close_receive(comm);
}

// The end of the first connection lies behind a message that nobody asks for.
TEST_P(NetGroups, AKilledPeerFailsAReceiveOfANewTagThoughAnOthersMessageIsNotTaken) {
  Peer peer([&](Channel& channel) {
    Side side(GetParam());
    HandleMemory handle{};
    channel.receive(handle.data(), handle.size());
    void* comm = side.connect(handle);
    const Bytes data = message(0, 0, 10);
    for (int i = 0; i < 2; ++i) side.finish(side.send_with(0, comm, data));
    channel.signal();
    channel.wait();  // until killed
  });
  Side side(GetParam());
  HandleMemory handle{};
  void* listen_comm = side.listen(handle);
  peer.channel().send(handle.data(), handle.size());
  void* comm = side.accept(listen_comm);
  side.plugin().close_listen(listen_comm);
  std::vector<Bytes> taken(1, Bytes(20)), awaited(1, Bytes(20));
  side.finish_group(side.receive_group(comm, taken, std::vector<int>{0}), 1);
  peer.channel().wait();
  void* request = side.receive_group(comm, awaited, std::vector<int>{2});
  std::vector<std::size_t> sizes(1);
  EXPECT_FALSE(side.poll_group(request, sizes));
  peer.kill();
  take_log();
  EXPECT_EQ(side.finish_badly(request), abi::ncclRemoteError);
  const auto lines = take_log();
  ASSERT_EQ(lines.size(), 1U);
  EXPECT_NE(lines[0].find("no connection for tag 2"), std::string::npos) << lines[0];
  side.plugin().close_receive(comm);
}

TEST_P(NetGroups, MemoryOfAGroupUnderWayIsNotWrittenAfterItsDeregistration) {
  std::atomic<bool> passed = false;
  constexpr std::size_t kSize = 100'000;
  Pair::run(
      GetParam(),
      [](Side& side, void* comm, Channel& channel) {
        const Bytes data = message(1, 0, kSize);
        side.finish(side.send_with(1, comm, message(1, 0, 10)));
        channel.wait();
        void* request = nullptr;
        abi::ncclResult_t result = abi::ncclSuccess;
        for (const auto deadline = Deadline::after(kPatience); result == abi::ncclSuccess;) {
          REQUIRE(!deadline.passed());
          auto* bytes = const_cast<std::byte*>(data.data());
          result = side.plugin().isend(comm, bytes, kSize, 2, nullptr, &request);
          if (request != nullptr) result = side.finish_badly(request);
        }
        REQUIRE(result == abi::ncclRemoteError);
        channel.signal();
      },
      [&](Side& side, void* comm, Channel& channel) {
        Bytes small(10);
        side.finish(side.receive_group(comm, {&small, 1}, std::vector<int>{1}));
        Bytes buffer(kSize);
        void *memory = side.register_memory(comm, buffer), *request = nullptr;
        std::array<void*, 2> data{buffer.data(), buffer.data() + kSize / 2}, memories{memory, memory};
        const std::array<std::size_t, 2> sizes{kSize / 2, kSize / 2};
        std::array<int, 2> tags{1, 2};
        ASSERT_EQ(
            side.plugin().irecv(comm, 2, data.data(), sizes.data(), tags.data(), memories.data(), &request),
            abi::ncclSuccess);
        ASSERT_NE(request, nullptr);
        EXPECT_EQ(side.plugin().deregister_memory(comm, memory), abi::ncclSuccess);
        std::ranges::fill(buffer, std::byte{7});
        channel.signal();
        channel.wait();
        EXPECT_EQ(std::ranges::count(buffer, std::byte{7}), static_cast<std::ptrdiff_t>(kSize));
        EXPECT_EQ(side.finish_badly(request), abi::ncclRemoteError);
        passed = true;
      });
  EXPECT_TRUE(passed);
}

TEST_P(NetGroups, NoGroupIsEmptyOrLargerThanMaxRecvs) {
  Pair::run(
      GetParam(), [](Side&, void*, Channel& channel) { channel.wait(); },
      [](Side& side, void* comm, Channel& channel) {
        Bytes buffer(10);
        std::array<void*, 8> data{}, memories{};
        data.fill(buffer.data());
        std::array<std::size_t, 8> sizes{};
        std::array<int, 8> tags{};
        take_log();
        for (const int count : {0, -1, kMaxReceives + 1}) {
          void* request = &side;
          EXPECT_EQ(side.plugin().irecv(comm, count, data.data(), sizes.data(), tags.data(), memories.data(),
                                        &request),
                    abi::ncclInvalidArgument);
          EXPECT_EQ(request, nullptr);
        }
        EXPECT_EQ(take_log().size(), 3U);
        channel.signal();
      });
}

TEST_P(NetGroups, AreOffWhereTheEnvironmentSaysSo) {
  ::setenv("TOMBOLO_NET_GROUPS", "off", 1);
  Pair::run(
      GetParam(),
      [](Side& side, void* comm, Channel& channel) {
        for (const int tag : {1, 2}) side.finish(side.send_with(tag, comm, message(tag, 0, 100)));
        channel.wait();
      },
      [](Side& side, void* comm, Channel& channel) {
        abi::ncclNetProperties_v12_t properties{};
        EXPECT_EQ(side.plugin().get_properties(0, &properties), abi::ncclSuccess);
        EXPECT_EQ(properties.maxRecvs, 1);
        Bytes buffer(100);
        std::array<void*, 2> data{buffer.data(), buffer.data()}, memories{};
        const std::array<std::size_t, 2> sizes{100, 100};
        std::array<int, 2> tags{1, 2};
        void* request = nullptr;
        EXPECT_EQ(
            side.plugin().irecv(comm, 2, data.data(), sizes.data(), tags.data(), memories.data(), &request),
            abi::ncclInvalidArgument);
        // Tags tell nothing apart: messages meet receives in posting order.
        for (const int tag : {1, 2}) {
          EXPECT_EQ(side.finish(side.receive(comm, buffer)), 100U);
          EXPECT_EQ(buffer, message(tag, 0, 100));
        }
        channel.signal();
      });
  ::unsetenv("TOMBOLO_NET_GROUPS");
}

}  // namespace
}  // namespace tombolo::net_plugin::test
