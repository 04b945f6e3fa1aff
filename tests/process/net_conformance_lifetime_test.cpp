// What NCCL relies on in a net plugin, point by point: threads, failures, closing and unloading.
#include <gtest/gtest.h>
#include <poll.h>

#include <algorithm>
#include <atomic>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <set>
#include <thread>

#include "base/clock.h"
#include "base/error.h"
#include "base/format.h"
#include "base/sanitizer.h"
#include "tests/process/net_harness.h"

namespace tombolo::net_plugin::test {
namespace {

class NetLifetime : public testing::TestWithParam<int> {};

INSTANTIATE_TEST_SUITE_P(Abi, NetLifetime, abi_versions(),
                         [](const auto& test) { return fmt::format("v{}", test.param); });

std::set<std::string> entries(const char* folder) {
  std::set<std::string> names;
  for (const auto& entry : std::filesystem::directory_iterator(folder)) names.insert(entry.path().filename());
  return names;
}

/// Open descriptors with what they refer to, without the one that lists them.
std::set<std::string> descriptors() {
  std::set<std::string> open;
  for (const std::string& name : entries("/proc/self/fd")) {
    std::error_code gone;
    auto target = std::filesystem::read_symlink("/proc/self/fd/" + name, gone);
    if (!gone) open.insert(name + " " + target.string());
  }
  return open;
}

/// Threads of this process by number and name. A sanitizer's runtime may keep some of its own, so there only
/// the plugin's are listed.
std::set<std::string> threads_here() {
  constexpr bool kOnlyOurs = kSanitized;
  std::set<std::string> threads;
  for (const std::string& number : entries("/proc/self/task")) {
    std::ifstream file("/proc/self/task/" + number + "/comm");
    std::string name;
    if (!std::getline(file, name)) continue;  // it has just ended
    if (!kOnlyOurs || name.starts_with("tombolo")) threads.insert(number + " " + name);
  }
  return threads;
}

/// Throws unless these threads and descriptors are what is left soon: a thread that was joined may still be
/// listed for a moment.
void require_left(const std::set<std::string>& threads, const std::set<std::string>& open) {
  for (const auto until = Deadline::after(kPatience);
       (threads_here() != threads || descriptors() != open) && !until.passed();)
    std::this_thread::yield();
  REQUIRE_EQ(threads_here(), threads);
  REQUIRE_EQ(descriptors(), open);
}

/// Mappings of the library in this process.
std::size_t mappings_of(const std::string& library) {
  std::ifstream maps("/proc/self/maps");
  std::size_t count = 0;
  for (std::string line; std::getline(maps, line);) count += line.find(library) != line.npos ? 1 : 0;
  return count;
}

/// One message over a connection of this process to itself: what a job of two ranks in one process does.
void talk_to_self(Client& plugin, void* context) {
  HandleMemory handle{};
  void *listen_comm = nullptr, *send_comm = nullptr, *receive_comm = nullptr;
  REQUIRE(plugin.listen(context, 0, handle.data(), &listen_comm) == abi::ncclSuccess);
  Deadline deadline = Deadline::after(kPatience);
  while (send_comm == nullptr || receive_comm == nullptr) {
    if (send_comm == nullptr)
      REQUIRE(plugin.connect(context, 0, handle.data(), &send_comm) == abi::ncclSuccess);
    if (receive_comm == nullptr) REQUIRE(plugin.accept(listen_comm, &receive_comm) == abi::ncclSuccess);
    REQUIRE(!deadline.passed());
  }
  REQUIRE(plugin.close_listen(listen_comm) == abi::ncclSuccess);
  auto data = pattern(300'000, 1);
  std::vector<std::byte> buffer(data.size());
  void *memory = nullptr, *send = nullptr, *receive = nullptr;
  REQUIRE(plugin.register_memory(receive_comm, buffer.data(), buffer.size(), abi::NCCL_PTR_HOST, &memory) ==
          abi::ncclSuccess);
  REQUIRE(plugin.receive(receive_comm, buffer.data(), buffer.size(), memory, &receive) == abi::ncclSuccess);
  REQUIRE(plugin.send(send_comm, data.data(), data.size(), nullptr, &send) == abi::ncclSuccess);
  REQUIRE(send != nullptr && receive != nullptr);
  for (int sent = 0, received = 0; sent == 0 || received == 0;) {
    if (sent == 0) REQUIRE(plugin.test(send, &sent, nullptr) == abi::ncclSuccess);
    if (received == 0) REQUIRE(plugin.test(receive, &received, nullptr) == abi::ncclSuccess);
    REQUIRE(!deadline.passed());
  }
  REQUIRE(buffer == data);
  REQUIRE(plugin.deregister_memory(receive_comm, memory) == abi::ncclSuccess);
  REQUIRE(plugin.close_send(send_comm) == abi::ncclSuccess);
  REQUIRE(plugin.close_receive(receive_comm) == abi::ncclSuccess);
}

TEST_P(NetLifetime, UnloadingLeavesNothingBehindAndTheLibraryLoadsAgain) {
  // In a process of its own, so that nothing else opens or maps anything.
  Peer peer([](Channel&) {
    auto threads = threads_here();
    auto open = descriptors();
    for (int round = 0; round < 3; ++round) {
      {
        auto plugin = Client::load(plugin_path(), GetParam());
        REQUIRE(mappings_of("libnccl-net-tombolo") > 0);
        void *context = nullptr, *abandoned = nullptr, *listen_comm = nullptr;
        REQUIRE(plugin->init(&context, 1, keep_log) == abi::ncclSuccess);
        talk_to_self(*plugin, context);
        // A connect that NCCL gave up: the plugin is never told of its end.
        HandleMemory handle{};
        REQUIRE(plugin->listen(context, 0, handle.data(), &listen_comm) == abi::ncclSuccess);
        REQUIRE(plugin->connect(context, 0, handle.data(), &abandoned) == abi::ncclSuccess);
        REQUIRE(abandoned == nullptr);
        REQUIRE(plugin->close_listen(listen_comm) == abi::ncclSuccess);
        REQUIRE(plugin->finalize(context) == abi::ncclSuccess);
      }
      require_left(threads, open);
      if (!kSanitized) REQUIRE(mappings_of("libnccl-net-tombolo") == 0);
    }
  });
  EXPECT_NO_THROW(peer.join());
}

// The same for every version of the ABI.
TEST(NetUnloading, AfterTlsIsHarmlessToThreadsAndToTheProcesssEnd) {
  Peer peer([](Channel&) {
    ::setenv("TOMBOLO_TLS", "on", 1);
    ::setenv("TOMBOLO_TRANSPORTS", "tcp", 1);
    auto threads = threads_here();
    auto open = descriptors();
    std::size_t mapped = 0;
    for (int round = 0; round < 3; ++round) {
      // OpenSSL keeps data for every thread that used it; this thread lives on after the plugin is unloaded.
      std::atomic<bool> talked = false, unloaded = false;
      bool encrypted = false, ended = false;
      std::string failure;
      std::thread user;
      {
        auto plugin = Client::load(plugin_path(), kNewestAbi);
        void* context = nullptr;
        REQUIRE(plugin->init(&context, 1, keep_log) == abi::ncclSuccess);
        talk_to_self(*plugin, context);
        user = std::thread([&] {
          try {
            talk_to_self(*plugin, context);
          } catch (const std::exception& error) {
            failure = error.what();
          }
          talked = true;
          talked.notify_all();
          unloaded.wait(false);
        });
        talked.wait(false);
        for (const std::string& line : take_log()) encrypted |= line.find("tcp+tls") != line.npos;
        ended = plugin->finalize(context) == abi::ncclSuccess;
      }
      unloaded = true;
      unloaded.notify_all();
      user.join();
      REQUIRE(failure == "");
      REQUIRE(encrypted);
      REQUIRE(ended);
      require_left(threads, open);
      // It may stay, as OpenSSL wants it; but once, however often it is loaded.
      if (round == 0) mapped = mappings_of("libnccl-net-tombolo");
      REQUIRE(mappings_of("libnccl-net-tombolo") == mapped);
    }
    // Ends with exit(), so that exit handlers run, which other peers leave out.
    std::exit(0);
  });
  EXPECT_NO_THROW(peer.join());
}

TEST_P(NetLifetime, EachCommunicatorHasItsOwnContextAndEnd) {
  Side first(GetParam()), second(GetParam());
  if (GetParam() >= 11) {
    EXPECT_NE(first.context(), second.context());
  }
  talk_to_self(first.plugin(), first.context());
  { Side third(GetParam()); }
  talk_to_self(second.plugin(), second.context());
  talk_to_self(first.plugin(), first.context());
}

TEST_P(NetLifetime, SeveralCommunicatorsRunInSeveralThreads) {
  constexpr int kThreads = 4, kRounds = 5;
  Side side(GetParam());
  std::atomic<int> finished = 0;
  std::vector<std::string> errors(kThreads);
  std::vector<std::thread> threads;
  for (int i = 0; i < kThreads; ++i) {
    threads.emplace_back([&, i] {
      try {
        void* context = side.context();
        if (GetParam() >= 11) REQUIRE(side.plugin().init(&context, static_cast<unsigned>(i), keep_log) == 0);
        for (int round = 0; round < kRounds; ++round) talk_to_self(side.plugin(), context);
        if (GetParam() >= 11) REQUIRE(side.plugin().finalize(context) == abi::ncclSuccess);
        ++finished;
      } catch (const std::exception& error) {
        errors[static_cast<std::size_t>(i)] = error.what();
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(finished, kThreads);
  for (const std::string& error : errors) EXPECT_EQ(error, "");
}

TEST_P(NetLifetime, MemoryIsRegisteredFromAnotherThreadWhileMessagesFlow) {
  constexpr int kMessages = 300;
  Pair::run(
      GetParam(),
      [](Side& side, void* comm, Channel& channel) {
        auto data = pattern(20'000, 1);
        for (int i = 0; i < kMessages; ++i) REQUIRE(side.finish(side.send(comm, data)) == data.size());
        channel.wait();
      },
      [](Side& side, void* comm, Channel& channel) {
        std::atomic<bool> over = false;
        std::atomic<int> registered = 0;
        // NCCL's service thread registers while its progress thread moves data.
        std::thread service([&] {
          std::vector<std::byte> buffer(65536);
          while (!over) {
            void* memory = nullptr;
            if (side.plugin().register_memory(comm, buffer.data(), buffer.size(), abi::NCCL_PTR_HOST,
                                              &memory) != 0 ||
                side.plugin().deregister_memory(comm, memory) != 0) {
              return;
            }
            ++registered;
          }
        });
        std::vector<std::byte> buffer(20'000);
        void* memory = side.register_memory(comm, buffer);
        std::string failure;
        try {
          for (int i = 0; i < kMessages; ++i) {
            REQUIRE(side.finish(side.receive(comm, buffer, memory)) == buffer.size());
          }
          while (registered == 0) std::this_thread::yield();
        } catch (const std::exception& error) {
          failure = error.what();
        }
        over = true;
        service.join();
        EXPECT_EQ(failure, "");
        EXPECT_EQ(buffer, pattern(20'000, 1));
        EXPECT_EQ(side.plugin().deregister_memory(comm, memory), abi::ncclSuccess);
        channel.signal();
      });
}

TEST_P(NetLifetime, WhatWasSentBeforeCloseSendArrives) {
  const std::size_t size = 3'000'000;
  std::atomic<bool> passed = false;
  Pair::run(
      GetParam(),
      [&](Side& side, void* comm, Channel&) {
        std::vector<void*> requests;
        auto data = pattern(size, 6);
        for (int i = 0; i < 3; ++i) requests.push_back(side.send(comm, data));
        for (void* request : requests) REQUIRE(side.finish(request) == size);
        // Closed at once by Pair, and the process ends.
      },
      [&](Side& side, void* comm, Channel&) {
        std::vector<std::byte> buffer(size);
        for (int i = 0; i < 3; ++i) {
          ASSERT_EQ(side.finish(side.receive(comm, buffer)), size);
          EXPECT_EQ(buffer, pattern(size, 6));
        }
        passed = true;
      });
  EXPECT_TRUE(passed);
}

TEST_P(NetLifetime, ClosingWithRequestsInFlightIsClean) {
  // NCCL's abort.
  Pair::run(
      GetParam(),
      [](Side& side, void* comm, Channel& channel) {
        auto data = pattern(8'000'000, 1);
        for (int i = 0; i < 4; ++i) side.send(comm, data);
        channel.signal();
        channel.wait();
      },
      [](Side& side, void* comm, Channel& channel) {
        channel.wait();
        std::vector<std::byte> buffer(8'000'000);
        std::size_t size = 0;
        void* request = side.receive(comm, buffer);
        for (int i = 0; i < 3; ++i) side.receive(comm, buffer);
        side.poll(request, size);
        channel.signal();
      });
}

// As in NCCL's abort, which frees memory first and closes then.
TEST_P(NetLifetime, MemoryDeregisteredWithASendUnderWayIsNotReadAnyMore) {
  std::atomic<bool> passed = false;
  constexpr std::size_t kSize = 8'000'000;
  Pair::run(
      GetParam(),
      [](Side& side, void* comm, Channel& channel) {
        auto data = pattern(kSize, 1);
        void* memory = side.register_memory(comm, data);
        std::vector<std::byte> other(8);
        void* other_memory = side.register_memory(comm, other);
        void* request = side.send(comm, data, memory);
        std::size_t size = 0;
        REQUIRE(!side.poll(request, size));
        REQUIRE(side.plugin().deregister_memory(comm, memory) == abi::ncclSuccess);
        std::ranges::fill(data, std::byte{0});  // the memory is in use for something else now
        channel.signal();
        channel.wait();
        take_log();
        REQUIRE(side.finish_badly(request) == abi::ncclRemoteError);
        auto lines = take_log();
        REQUIRE(lines.size() == 1 && lines[0].find("deregistered while a send") != std::string::npos);
        void* later = nullptr;
        REQUIRE(side.plugin().send(comm, other.data(), 8, other_memory, &later) == abi::ncclRemoteError);
        REQUIRE(side.plugin().register_memory(comm, data.data(), 8, abi::NCCL_PTR_HOST, &later) ==
                abi::ncclRemoteError);
        REQUIRE(side.plugin().deregister_memory(comm, other_memory) == abi::ncclSuccess);
      },
      [&](Side& side, void* comm, Channel& channel) {
        channel.wait();
        std::vector<std::byte> buffer(kSize);
        void* request = side.receive(comm, buffer);
        // No goodbye can be sent behind a frame that was cut short. The peer must notice the closing well
        // before the idle timeout of 60 s.
        EXPECT_EQ(side.finish_badly(request), abi::ncclRemoteError);
        channel.signal();
        passed = true;
      });
  EXPECT_TRUE(passed);
}

TEST_P(NetLifetime, MemoryDeregisteredWithAReceiveUnderWayIsNotWrittenAnyMore) {
  std::atomic<bool> passed = false;
  constexpr std::size_t kSize = 8'000'000;
  Pair::run(
      GetParam(),
      [](Side& side, void* comm, Channel& channel) {
        channel.wait();
        auto data = pattern(kSize, 1);
        void* request = nullptr;
        REQUIRE(side.plugin().send(comm, data.data(), kSize, nullptr, &request) == abi::ncclSuccess);
        REQUIRE(request != nullptr);
        REQUIRE(side.finish_badly(request) == abi::ncclRemoteError);
        channel.signal();
      },
      [&](Side& side, void* comm, Channel& channel) {
        std::vector<std::byte> buffer(kSize);
        void* memory = side.register_memory(comm, buffer);
        void* request = side.receive(comm, buffer, memory);
        std::size_t size = 0;
        EXPECT_FALSE(side.poll(request, size));
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

TEST_P(NetLifetime, AKilledPeerMakesTestFailInBoundedTime) {
  for (bool peer_sends : {true, false}) {
    Peer peer([&](Channel& channel) {
      Side side(GetParam());
      HandleMemory handle{};
      if (peer_sends) {
        channel.receive(handle.data(), handle.size());
        side.connect(handle);
      } else {
        void* listen_comm = side.listen(handle);
        channel.send(handle.data(), handle.size());
        side.accept(listen_comm);
        side.plugin().close_listen(listen_comm);
      }
      channel.signal();
      channel.wait();  // until killed
    });
    Side side(GetParam());
    HandleMemory handle{};
    void* comm = nullptr;
    if (peer_sends) {
      void* listen_comm = side.listen(handle);
      peer.channel().send(handle.data(), handle.size());
      comm = side.accept(listen_comm);
      side.plugin().close_listen(listen_comm);
    } else {
      peer.channel().receive(handle.data(), handle.size());
      comm = side.connect(handle);
    }
    peer.channel().wait();
    // More than the kernel's buffers take, so that a send cannot end before the peer reads.
    std::vector<std::byte> data(64 << 20);
    void* request = peer_sends ? side.receive(comm, data) : side.send(comm, data);
    std::size_t size = 0;
    EXPECT_FALSE(side.poll(request, size));
    peer.kill();
    take_log();
    EXPECT_EQ(side.finish_badly(request), abi::ncclRemoteError);
    auto lines = take_log();
    ASSERT_EQ(lines.size(), 1U);
    EXPECT_TRUE(lines[0].starts_with("2 NET/Tombolo : ")) << lines[0];
    // Later posts fail as well; they must not return "try again" for ever.
    void* later = nullptr;
    abi::ncclResult_t result = abi::ncclSuccess;
    Deadline deadline = Deadline::after(kPatience);
    while (result == abi::ncclSuccess && !deadline.passed()) {
      result = peer_sends ? side.plugin().receive(comm, data.data(), 8, nullptr, &later)
                          : side.plugin().send(comm, data.data(), 8, nullptr, &later);
      if (result == abi::ncclSuccess && later != nullptr) result = side.finish_badly(later);
    }
    EXPECT_EQ(result, abi::ncclRemoteError);
    if (peer_sends) {
      side.plugin().close_receive(comm);
    } else {
      side.plugin().close_send(comm);
    }
  }
}

TEST(NetPlugin, TheLibraryHasNoOtherAbiVersions) {
  EXPECT_THROW(Client::load(plugin_path(), kOldestAbi - 1), Error);
  EXPECT_THROW(Client::load(plugin_path(), kNewestAbi + 1), Error);
  EXPECT_THROW(Client::load("/nowhere/libnccl-net.so", kNewestAbi), Error);
}

}  // namespace
}  // namespace tombolo::net_plugin::test
