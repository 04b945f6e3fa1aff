// What NCCL relies on in a net plugin, point by point: messages and requests.
#include <gtest/gtest.h>

#include <algorithm>
#include <deque>
#include <numeric>
#include <random>

#include "base/format.h"
#include "base/randomized_test.h"
#include "tests/process/net_harness.h"

namespace tombolo::net_plugin::test {
namespace {

class NetMessages : public testing::TestWithParam<int> {};

INSTANTIATE_TEST_SUITE_P(Abi, NetMessages, abi_versions(),
                         [](const auto& test) { return fmt::format("v{}", test.param); });

TEST_P(NetMessages, AReceiveMayBeLargerThanItsSendAndBothEndsReportTheRealSize) {
  Pair::run(
      GetParam(),
      [](Side& side, void* comm, Channel& channel) {
        for (std::size_t size : {1UL, 77UL, 8192UL, 1'000'000UL}) {
          REQUIRE(side.finish(side.send(comm, pattern(size, 1))) == size);
        }
        channel.wait();
      },
      [](Side& side, void* comm, Channel& channel) {
        for (std::size_t size : {1UL, 77UL, 8192UL, 1'000'000UL}) {
          std::vector<std::byte> buffer(size * 4 + 1, std::byte{0xee});
          ASSERT_EQ(side.finish(side.receive(comm, buffer)), size);
          auto expected = pattern(size, 1);
          EXPECT_TRUE(std::equal(expected.begin(), expected.end(), buffer.begin()));
          // Bytes behind the message stay as they are.
          EXPECT_TRUE(std::all_of(buffer.begin() + static_cast<std::ptrdiff_t>(size), buffer.end(),
                                  [](std::byte byte) { return byte == std::byte{0xee}; }));
        }
        channel.signal();
      });
}

// What regIsGlobal promises; it is so whether it is told or not.
TEST_P(NetMessages, MemoryThatOneCommRegisteredServesAnother) {
  Pair::run(
      GetParam(),
      [](Side& side, void* comm, Channel& channel) {
        auto data = pattern(100'000, 1);
        REQUIRE(side.finish(side.send(comm, data)) == data.size());
        channel.wait();
      },
      [](Side& side, void* comm, Channel& channel) {
        HandleMemory handle{};
        void *listen_comm = side.listen(handle), *send = nullptr, *other = nullptr;
        for (const auto deadline = Deadline::after(kPatience); send == nullptr || other == nullptr;) {
          REQUIRE(!deadline.passed());
          if (send == nullptr)
            REQUIRE(side.plugin().connect(side.context(), 0, handle.data(), &send) == abi::ncclSuccess);
          if (other == nullptr) REQUIRE(side.plugin().accept(listen_comm, &other) == abi::ncclSuccess);
        }
        side.plugin().close_listen(listen_comm);
        std::vector<std::byte> buffer(100'000);
        void* memory = side.register_memory(other, buffer);
        EXPECT_EQ(side.finish(side.receive(comm, buffer, memory)), buffer.size());
        EXPECT_EQ(buffer, pattern(100'000, 1));
        EXPECT_EQ(side.plugin().deregister_memory(other, memory), abi::ncclSuccess);
        side.plugin().close_send(send);
        side.plugin().close_receive(other);
        channel.signal();
      });
}

TEST_P(NetMessages, ZeroByteMessagesArriveInTheirPlace) {
  Pair::run(
      GetParam(),
      [](Side& side, void* comm, Channel& channel) {
        std::vector<std::byte> nothing, something = pattern(3, 5);
        std::vector<void*> requests{side.send(comm, nothing), side.send(comm, something),
                                    side.send(comm, nothing)};
        REQUIRE(side.finish(requests[0]) == 0);
        REQUIRE(side.finish(requests[1]) == 3);
        REQUIRE(side.finish(requests[2]) == 0);
        channel.wait();
      },
      [](Side& side, void* comm, Channel& channel) {
        std::vector<std::byte> buffers[3];
        buffers[0].resize(16);
        buffers[1].resize(16);
        void* requests[3];
        for (int i = 0; i < 3; ++i) requests[i] = side.receive(comm, buffers[i]);
        EXPECT_EQ(side.finish(requests[0]), 0U);
        EXPECT_EQ(side.finish(requests[1]), 3U);
        EXPECT_EQ(side.finish(requests[2]), 0U);
        channel.signal();
      });
}

TEST_P(NetMessages, MessagesMatchInPostingOrder) {
  // Sizes on both sides of any inline or chunk limit, next to each other.
  const std::vector<std::size_t> sizes{10, 500'000, 0, 3, 70'000, 1, 2'000'000, 64};
  Pair::run(
      GetParam(),
      [&](Side& side, void* comm, Channel& channel) {
        std::vector<std::vector<std::byte>> data;
        std::vector<void*> requests;
        for (unsigned i = 0; i < sizes.size(); ++i) data.push_back(pattern(sizes[i], i));
        for (auto& one : data) requests.push_back(side.send(comm, one));
        for (std::size_t i = 0; i < sizes.size(); ++i) REQUIRE(side.finish(requests[i]) == sizes[i]);
        channel.wait();
      },
      [&](Side& side, void* comm, Channel& channel) {
        std::vector<std::vector<std::byte>> buffers(sizes.size(), std::vector<std::byte>(2'000'000));
        std::vector<void*> requests;
        for (auto& buffer : buffers) requests.push_back(side.receive(comm, buffer));
        for (unsigned i = 0; i < sizes.size(); ++i) {
          ASSERT_EQ(side.finish(requests[i]), sizes[i]);
          buffers[i].resize(sizes[i]);
          EXPECT_EQ(buffers[i], pattern(sizes[i], i));
        }
        channel.signal();
      });
}

TEST_P(NetMessages, RequestsMayBeTestedInAnyOrder) {
  constexpr std::size_t kCount = 24, kSize = 40'000;
  unsigned seed = test_seed();
  auto in_random_order = [&](Side& side, const std::vector<void*>& requests, unsigned own_seed) {
    std::vector<std::size_t> order(requests.size());
    std::iota(order.begin(), order.end(), 0);
    std::ranges::shuffle(order, std::mt19937(own_seed));
    for (std::size_t at : order) REQUIRE(side.finish(requests[at]) == kSize + at);
  };
  Pair::run(
      GetParam(),
      [&](Side& side, void* comm, Channel& channel) {
        std::vector<std::vector<std::byte>> data;
        std::vector<void*> requests;
        for (unsigned i = 0; i < kCount; ++i) data.push_back(pattern(kSize + i, i));
        for (auto& one : data) requests.push_back(side.send(comm, one));
        in_random_order(side, requests, seed);
        channel.wait();
      },
      [&](Side& side, void* comm, Channel& channel) {
        std::vector<std::vector<std::byte>> buffers;
        std::vector<void*> requests;
        for (std::size_t i = 0; i < kCount; ++i) buffers.emplace_back(kSize + i);
        for (auto& buffer : buffers) requests.push_back(side.receive(comm, buffer));
        in_random_order(side, requests, seed + 1);
        for (unsigned i = 0; i < kCount; ++i) EXPECT_EQ(buffers[i], pattern(kSize + i, i));
        channel.signal();
      });
}

TEST_P(NetMessages, LaterRequestsProgressWhileOnlyTheOldestIsTested) {
  // Both ends test only the last of eight; all the older ones must then be found done at their first test.
  // Then the other way round: only the oldest is tested until the peer says over the channel that everything
  // arrived.
  constexpr std::size_t kCount = 8, kSize = 300'000;
  Pair::run(
      GetParam(),
      [&](Side& side, void* comm, Channel& channel) {
        auto data = pattern(kSize, 1);
        std::vector<void*> requests;
        for (std::size_t i = 0; i < kCount; ++i) requests.push_back(side.send(comm, data));
        REQUIRE(side.finish(requests.back()) == kSize);
        std::size_t size = 0;
        for (std::size_t i = 0; i + 1 < kCount; ++i) REQUIRE(side.poll(requests[i], size) && size == kSize);

        // Small messages: the first test must hand all of them to the network, as NCCL may not come back for
        // long.
        auto small = pattern(50, 2);
        requests.clear();
        for (std::size_t i = 0; i < kCount; ++i) requests.push_back(side.send(comm, small));
        REQUIRE(side.finish(requests.front()) == small.size());
        channel.wait();
        for (std::size_t i = 1; i < kCount; ++i) REQUIRE(side.finish(requests[i]) == small.size());
        channel.signal();
      },
      [&](Side& side, void* comm, Channel& channel) {
        std::vector<std::vector<std::byte>> buffers(kCount, std::vector<std::byte>(kSize));
        std::vector<void*> requests;
        for (auto& buffer : buffers) requests.push_back(side.receive(comm, buffer));
        EXPECT_EQ(side.finish(requests.back()), kSize);
        std::size_t size = 0;
        for (std::size_t i = 0; i + 1 < kCount; ++i) EXPECT_TRUE(side.poll(requests[i], size));
        for (auto& buffer : buffers) EXPECT_EQ(buffer, pattern(kSize, 1));

        requests.clear();
        for (auto& buffer : buffers) requests.push_back(side.receive(comm, buffer));
        for (void* request : requests) EXPECT_EQ(side.finish(request), 50U);
        channel.signal();
        channel.wait();
      });
}

TEST_P(NetMessages, ANullRequestSaysTryAgainWhenAllAreInFlight) {
  constexpr int kMost = 1000;
  Pair::run(
      GetParam(),
      [&](Side& side, void* comm, Channel& channel) {
        auto data = pattern(16, 1);
        std::vector<void*> requests;
        void* request = nullptr;
        do {
          REQUIRE(side.plugin().send(comm, data.data(), data.size(), nullptr, &request) == abi::ncclSuccess);
          if (request != nullptr) requests.push_back(request);
        } while (request != nullptr && requests.size() < kMost);
        REQUIRE(request == nullptr);
        REQUIRE(requests.size() >= abi::NCCL_NET_MAX_REQUESTS);
        // One completed request makes room for one more.
        REQUIRE(side.finish(requests.front()) == data.size());
        requests.front() = side.send(comm, data);
        auto count = requests.size() + 1;
        channel.send(&count, sizeof count);
        for (void* one : requests) REQUIRE(side.finish(one) == data.size());
        channel.wait();
      },
      [&](Side& side, void* comm, Channel& channel) {
        // The same holds when receives are posted and nothing comes.
        std::vector<std::byte> buffer(16);
        std::deque<void*> requests;
        void* request = nullptr;
        do {
          ASSERT_EQ(side.plugin().receive(comm, buffer.data(), buffer.size(), nullptr, &request),
                    abi::ncclSuccess);
          if (request != nullptr) requests.push_back(request);
        } while (request != nullptr && requests.size() < kMost);
        EXPECT_EQ(request, nullptr);
        EXPECT_GE(requests.size(), static_cast<std::size_t>(abi::NCCL_NET_MAX_REQUESTS));
        std::size_t count = 0;
        std::size_t posted = requests.size(), done = 0;
        // The sender's first request needs a receive that is progressed.
        EXPECT_EQ(side.finish(requests.front()), buffer.size());
        requests.pop_front();
        ++done;
        channel.receive(&count, sizeof count);
        while (done < count) {
          while (posted < count) {
            ASSERT_EQ(side.plugin().receive(comm, buffer.data(), buffer.size(), nullptr, &request),
                      abi::ncclSuccess);
            if (request == nullptr) break;
            requests.push_back(request);
            ++posted;
          }
          EXPECT_EQ(side.finish(requests.front()), buffer.size());
          requests.pop_front();
          ++done;
        }
        EXPECT_EQ(buffer, pattern(16, 1));
        channel.signal();
      });
}

TEST_P(NetMessages, ThePresetOfAnOptionalReceiveCompletionIsOverwritten) {
  Pair::run(
      GetParam(),
      [](Side& side, void* comm, Channel& channel) {
        REQUIRE(side.finish(side.send(comm, pattern(100, 4))) == 100);
        channel.wait();
      },
      [](Side& side, void* comm, Channel& channel) {
        auto* preset = reinterpret_cast<void*>(std::intptr_t{abi::NCCL_NET_OPTIONAL_RECV_COMPLETION});
        std::vector<std::byte> buffer(100);
        void* request = preset;
        ASSERT_EQ(side.plugin().receive(comm, buffer.data(), buffer.size(), nullptr, &request),
                  abi::ncclSuccess);
        ASSERT_NE(request, preset);
        ASSERT_NE(request, nullptr);
        // Also where the answer is "try again".
        std::vector<std::byte> other(100);
        void* more = preset;
        for (int i = 0; i < 1000 && more != nullptr; ++i) {
          more = preset;
          ASSERT_EQ(side.plugin().receive(comm, other.data(), other.size(), nullptr, &more),
                    abi::ncclSuccess);
          ASSERT_NE(more, preset);
        }
        EXPECT_EQ(more, nullptr);
        EXPECT_EQ(side.finish(request), 100U);
        EXPECT_EQ(buffer, pattern(100, 4));
        channel.signal();
      });
}

TEST_P(NetMessages, OnlyHostMemoryIsRegisteredAndAFlushOfItIsNothing) {
  Pair::run(
      GetParam(), [](Side&, void*, Channel& channel) { channel.wait(); },
      [](Side& side, void* comm, Channel& channel) {
        std::vector<std::byte> buffer(4096);
        void* memory = side.register_memory(comm, buffer);
        EXPECT_NE(memory, nullptr);
        void* request = &side;
        EXPECT_EQ(side.plugin().flush(comm, buffer.data(), buffer.size(), memory, &request),
                  abi::ncclSuccess);
        EXPECT_EQ(request, nullptr);
        EXPECT_EQ(side.plugin().deregister_memory(comm, memory), abi::ncclSuccess);

        take_log();
        void* refused = &side;
        EXPECT_NE(
            side.plugin().register_memory(comm, buffer.data(), buffer.size(), abi::NCCL_PTR_CUDA, &refused),
            abi::ncclSuccess);
        EXPECT_EQ(refused, nullptr);
        EXPECT_NE(side.plugin().register_dma_buf(comm, buffer.data(), buffer.size(), 0, &refused),
                  abi::ncclSuccess);
        auto lines = take_log();
        ASSERT_EQ(lines.size(), 2U);
        for (const std::string& line : lines) EXPECT_NE(line.find("host memory"), line.npos) << line;
        channel.signal();
      });
}

TEST_P(NetMessages, HundredsOfRandomMessagesArriveByteForByte) {
  constexpr std::size_t kMost = 200'000;
  const std::size_t messages = 200 * times_as_many();
  unsigned seed = test_seed();
  // Both ends draw the same sizes; windows and order of testing differ.
  auto sizes = [&] {
    std::mt19937 random(seed);
    std::vector<std::size_t> drawn(messages);
    for (std::size_t& size : drawn) {
      size = std::uniform_int_distribution<std::size_t>(0, random() % 4 == 0 ? kMost : 600)(random);
    }
    return drawn;
  }();
  struct InFlight {
    std::size_t index;
    void* request;
    std::vector<std::byte> data;
  };
  auto drive = [&](Side& side, void* comm, bool sends, unsigned own_seed) {
    std::mt19937 random(own_seed);
    std::deque<InFlight> flying;
    const Deadline deadline = Deadline::after(kPatience * static_cast<int>(times_as_many()));
    for (std::size_t posted = 0, done = 0; done < messages;) {
      REQUIRE(!deadline.passed());
      if (posted < messages && flying.size() < 1 + random() % 30) {
        std::size_t room = sends ? sizes[posted] : sizes[posted] + random() % 3;
        flying.push_back(
            {posted, nullptr,
             sends ? pattern(room, static_cast<unsigned>(posted)) : std::vector<std::byte>(room)});
        auto& last = flying.back();
        last.request = sends ? side.send(comm, last.data) : side.receive(comm, last.data);
        ++posted;
        continue;
      }
      auto at = flying.begin() + static_cast<std::ptrdiff_t>(random() % flying.size());
      std::size_t size = 0;
      if (!side.poll(at->request, size)) continue;
      REQUIRE(size == sizes[at->index]);
      at->data.resize(size);
      REQUIRE(at->data == pattern(size, static_cast<unsigned>(at->index)));
      flying.erase(at);
      ++done;
    }
  };
  Pair::run(
      GetParam(),
      [&](Side& side, void* comm, Channel& channel) {
        drive(side, comm, true, seed + 1);
        channel.wait();
      },
      [&](Side& side, void* comm, Channel& channel) {
        drive(side, comm, false, seed + 2);
        channel.signal();
      });
}

}  // namespace
}  // namespace tombolo::net_plugin::test
