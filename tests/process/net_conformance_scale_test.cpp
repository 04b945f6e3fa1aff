// What NCCL relies on in a net plugin, at scale: many comms, threads, loads and unloads, and a fork. The same
// for every version of the ABI, so only some are used.
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <string>
#include <thread>
#include <vector>

#include "base/forked_child_test.h"
#include "base/format.h"
#include "base/randomized_test.h"
#include "tests/process/net_harness.h"

namespace tombolo::net_plugin::test {
namespace {

using Bytes = std::vector<std::byte>;

constexpr int kTags = 3;

void send_round(Side& side, void* comm, unsigned seed) {
  std::vector<Bytes> data;
  for (int tag = kTags - 1; tag >= 0; --tag) data.push_back(pattern(2000, seed + static_cast<unsigned>(tag)));
  std::vector<void*> requests;
  for (int tag = kTags - 1; tag >= 0; --tag)
    requests.push_back(side.send_with(tag, comm, data[static_cast<std::size_t>(kTags - 1 - tag)]));
  for (void* request : requests) REQUIRE(side.finish(request) == 2000);
}

void receive_round(Side& side, void* comm, unsigned seed) {
  std::vector<Bytes> buffers(kTags, Bytes(2000));
  const std::vector<int> tags{0, 1, 2};
  side.finish_group(side.receive_group(comm, buffers, tags), kTags);
  for (unsigned tag = 0; tag < kTags; ++tag) REQUIRE(buffers[tag] == pattern(2000, seed + tag));
}

/// One direction of one pair of comms in one process; `listen` first, then `meet`.
void* meet(Side& side, HandleMemory& handle, void* listen_comm, void** receive) {
  void* send = nullptr;
  for (const auto deadline = Deadline::after(kPatience); send == nullptr || *receive == nullptr;) {
    REQUIRE(!deadline.passed());
    if (send == nullptr)
      REQUIRE(side.plugin().connect(side.context(), 0, handle.data(), &send) == abi::ncclSuccess);
    if (*receive == nullptr) REQUIRE(side.plugin().accept(listen_comm, receive) == abi::ncclSuccess);
  }
  return send;
}

/// Threads of this process whose names begin so.
int threads_named(const std::string& beginning) {
  int count = 0;
  for (const auto& task : std::filesystem::directory_iterator("/proc/self/task")) {
    std::string name;
    std::getline(std::ifstream(task.path() / "comm"), name);
    count += name.starts_with(beginning) ? 1 : 0;
  }
  return count;
}

class NetScale : public testing::TestWithParam<int> {};

INSTANTIATE_TEST_SUITE_P(Abi, NetScale, testing::Values(kOldestAbi, kNewestAbi),
                         [](const auto& test) { return fmt::format("v{}", test.param); });

TEST(NetThreads, SixtyFourCommsEachWayInSeveralThreads) {
  constexpr std::size_t kComms = 64, kThreads = 4, kRounds = 3;
  // Each process listens for half of the directions, and each thread of it serves its share of the comms both
  // ways.
  const auto serve = [](Side& side, Channel& channel) {
    std::vector<HandleMemory> own(kComms), theirs(kComms);
    std::vector<void*> listens(kComms), sends(kComms), receives(kComms);
    for (std::size_t i = 0; i < kComms; ++i) listens[i] = side.listen(own[i]);
    channel.send(own.data(), sizeof(HandleMemory) * kComms);
    channel.receive(theirs.data(), sizeof(HandleMemory) * kComms);
    std::vector<std::string> errors(kThreads);
    std::vector<std::thread> threads;
    for (std::size_t thread = 0; thread < kThreads; ++thread) {
      threads.emplace_back([&, thread] {
        try {
          for (std::size_t i = thread; i < kComms; i += kThreads) {
            for (const auto deadline = Deadline::after(kPatience);
                 sends[i] == nullptr || receives[i] == nullptr;) {
              REQUIRE(!deadline.passed());
              if (sends[i] == nullptr)
                REQUIRE(side.plugin().connect(side.context(), 0, theirs[i].data(), &sends[i]) == 0);
              if (receives[i] == nullptr) REQUIRE(side.plugin().accept(listens[i], &receives[i]) == 0);
            }
            REQUIRE(side.plugin().close_listen(listens[i]) == abi::ncclSuccess);
          }
          for (unsigned round = 0; round < kRounds; ++round) {
            for (std::size_t i = thread; i < kComms; i += kThreads) {
              const auto seed = static_cast<unsigned>(i * 100 + round * 10);
              std::vector<Bytes> buffers(kTags, Bytes(2000));
              const std::vector<int> tags{0, 1, 2};
              void* request = side.receive_group(receives[i], buffers, tags);
              // The other process may not have come so far, so both ways move together.
              std::vector<Bytes> data;
              for (unsigned tag = 0; tag < kTags; ++tag) data.push_back(pattern(2000, seed + tag));
              std::vector<void*> posted(kTags);
              std::vector<std::size_t> sizes(kTags);
              bool received = false;
              std::size_t sent = 0;
              for (const auto deadline = Deadline::after(kPatience); !received || sent < kTags;) {
                REQUIRE(!deadline.passed());
                received = received || side.poll_group(request, sizes);
                const auto tag = kTags - 1 - sent;
                if (sent == kTags) continue;
                if (posted[tag] == nullptr)
                  REQUIRE(side.plugin().isend(sends[i], data[tag].data(), 2000, static_cast<int>(tag),
                                              nullptr, &posted[tag]) == abi::ncclSuccess);
                std::size_t size = 0;
                if (posted[tag] != nullptr && side.poll(posted[tag], size)) ++sent;
              }
              for (unsigned tag = 0; tag < kTags; ++tag) REQUIRE(buffers[tag] == pattern(2000, seed + tag));
            }
          }
        } catch (const std::exception& error) {
          errors[thread] = error.what();
        }
      });
    }
    for (std::thread& thread : threads) thread.join();
    for (const std::string& error : errors) REQUIRE(error == "");
    channel.signal();
    channel.wait();
    for (void* comm : sends) REQUIRE(side.plugin().close_send(comm) == abi::ncclSuccess);
    for (void* comm : receives) REQUIRE(side.plugin().close_receive(comm) == abi::ncclSuccess);
  };
  Peer peer([&](Channel& channel) {
    Side side(kNewestAbi);
    serve(side, channel);
  });
  {
    Side side(kNewestAbi);
    EXPECT_NO_THROW(serve(side, peer.channel()));
  }
  EXPECT_NO_THROW(peer.join());
}

TEST(NetLoading, TheLibraryIsLoadedAndUnloadedAHundredTimes) {
  const int rounds = test_rounds(100);
  Peer peer([&](Channel& channel) {
    for (int round = 0; round < rounds; ++round) {
      Side side(kNewestAbi);
      HandleMemory handle{};
      void *listen_comm = side.listen(handle), *receive = nullptr;
      void* send = meet(side, handle, listen_comm, &receive);
      REQUIRE(side.plugin().close_listen(listen_comm) == abi::ncclSuccess);
      std::vector<Bytes> buffers(2, Bytes(100));
      void* group = side.receive_group(receive, buffers, std::vector<int>{4, 9});
      const Bytes first = pattern(100, 1), second = pattern(100, 2);
      std::array<void*, 2> sends{};
      std::array<bool, 2> sent{};
      std::vector<std::size_t> sizes(2);
      bool done = false;
      for (const auto deadline = Deadline::after(kPatience); !done || !sent[0] || !sent[1];) {
        REQUIRE(!deadline.passed());
        for (std::size_t i = 0; i < 2; ++i) {
          auto* data = const_cast<std::byte*>((i == 0 ? second : first).data());
          std::size_t size = 0;
          if (sends[i] == nullptr)
            REQUIRE(side.plugin().isend(send, data, 100, i == 0 ? 9 : 4, nullptr, &sends[i]) ==
                    abi::ncclSuccess);
          if (sends[i] != nullptr && !sent[i]) sent[i] = side.poll(sends[i], size);
        }
        done = done || side.poll_group(group, sizes);
      }
      REQUIRE(buffers[0] == first && buffers[1] == second);
      REQUIRE(side.plugin().close_send(send) == abi::ncclSuccess);
      REQUIRE(side.plugin().close_receive(receive) == abi::ncclSuccess);
      channel.signal();
    }
  });
  for (int round = 0; round < rounds; ++round) ASSERT_NO_THROW(peer.channel().wait()) << "in round " << round;
  EXPECT_NO_THROW(peer.join());
}

// What a program does that ends a communicator by an exception: nothing is closed, and messages are under
// way.
TEST(NetLoading, NothingOfItRunsAfterItWasUnloadedWithCommsAlive) {
  const int rounds = test_rounds(100);
  Peer peer([&](Channel& channel) {
    for (int round = 0; round < rounds; ++round) {
      // Outlives the library, as what NCCL allocated would.
      auto* buffers = new std::vector<Bytes>(2, Bytes(100'000));
      {
        Side side(round % 2 == 0 ? kNewestAbi : kOldestAbi);
        HandleMemory handle{}, unanswered{};
        void *listen_comm = side.listen(handle), *receive = nullptr,
             *send = meet(side, handle, listen_comm, &receive);
        side.receive_group(receive, *buffers, std::vector<int>{4, 9});
        side.send_with(9, send, (*buffers)[0]);
        void* attempt = nullptr;
        side.listen(unanswered);
        REQUIRE(side.plugin().connect(side.context(), 0, unanswered.data(), &attempt) == abi::ncclSuccess);
      }
      // A thread that was joined may still be listed for a moment.
      for (const auto until = Deadline::after(kPatience); threads_named("tombolo") > 0;)
        REQUIRE(!until.passed());
      channel.signal();
    }
  });
  for (int round = 0; round < rounds; ++round) ASSERT_NO_THROW(peer.channel().wait()) << "in round " << round;
  EXPECT_NO_THROW(peer.join());
}

// As a data loader does. The child has copies of all comms and lanes, and may only end: with the exit
// handlers and static objects of the program and of the plugin.
TEST_P(NetScale, AForkedChildThatOnlyExitsDisturbsNothing) {
  Pair::run(
      GetParam(),
      [](Side& side, void* comm, Channel& channel) {
        send_round(side, comm, 1);
        channel.wait();
        send_round(side, comm, 7);
        channel.wait();
      },
      [](Side& side, void* comm, Channel& channel) {
        receive_round(side, comm, 1);
        std::fflush(nullptr);  // else the child's exit would write it once more
        const pid_t child = ::fork();
        ASSERT_GE(child, 0);
        if (child == 0) exit_forked_child(3);
        int status = 0;
        ASSERT_EQ(::waitpid(child, &status, 0), child);
        ASSERT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 3);
        channel.signal();
        receive_round(side, comm, 7);
        channel.signal();
      });
}

}  // namespace
}  // namespace tombolo::net_plugin::test
