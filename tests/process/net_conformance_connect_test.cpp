// What NCCL relies on in a net plugin, point by point: making connections.
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <optional>
#include <set>

#include "base/format.h"
#include "net_plugin/limits.h"
#include "tests/process/environment.h"
#include "tests/process/net_harness.h"

namespace tombolo::net_plugin::test {
namespace {

class NetConnect : public testing::TestWithParam<int> {};

INSTANTIATE_TEST_SUITE_P(Abi, NetConnect, abi_versions(),
                         [](const auto& test) { return fmt::format("v{}", test.param); });

TEST_P(NetConnect, ConnectAndAcceptNeverBlockAndAreAskedAgain) {
  // NCCL's proxy asks for several connections in turn, so that no call may wait. A plugin that waited for the
  // peer here would wait for ever.
  Peer peer([&](Channel& channel) {
    Side side(GetParam());
    HandleMemory handle;
    channel.receive(handle.data(), handle.size());
    // The listener does not accept yet.
    for (int attempt = 0; attempt < 3; ++attempt) {
      void* comm = &side;
      REQUIRE(side.plugin().connect(side.context(), 0, handle.data(), &comm) == abi::ncclSuccess);
      REQUIRE(comm == nullptr);
      ::poll(nullptr, 0, 5);
    }
    channel.signal();
    void* comm = side.connect(handle);
    channel.wait();
    side.plugin().close_send(comm);
  });
  Side side(GetParam());
  HandleMemory handle{};
  void* listen_comm = side.listen(handle);
  for (int attempt = 0; attempt < 3; ++attempt) {
    void* comm = &side;
    ASSERT_EQ(side.plugin().accept(listen_comm, &comm), abi::ncclSuccess);
    EXPECT_EQ(comm, nullptr);
  }
  peer.channel().send(handle.data(), handle.size());
  peer.channel().wait();
  void* comm = side.accept(listen_comm);
  peer.channel().signal();
  peer.join();
  side.plugin().close_receive(comm);
  side.plugin().close_listen(listen_comm);
}

TEST_P(NetConnect, CloseListenRightAfterAcceptLeavesTheConnectionAlone) {
  auto data = pattern(100'000, 3);
  Peer peer([&](Channel& channel) {
    Side side(GetParam());
    HandleMemory handle;
    channel.receive(handle.data(), handle.size());
    void* comm = side.connect(handle);
    channel.wait();  // until the listener is closed
    REQUIRE(side.finish(side.send(comm, data)) == data.size());
    side.plugin().close_send(comm);
  });
  Side side(GetParam());
  HandleMemory handle{};
  void* listen_comm = side.listen(handle);
  peer.channel().send(handle.data(), handle.size());
  void* comm = side.accept(listen_comm);
  ASSERT_EQ(side.plugin().close_listen(listen_comm), abi::ncclSuccess);
  peer.channel().signal();
  std::vector<std::byte> buffer(data.size());
  EXPECT_EQ(side.finish(side.receive(comm, buffer)), data.size());
  EXPECT_EQ(buffer, data);
  side.plugin().close_receive(comm);
  peer.join();
}

TEST_P(NetConnect, TwoConnectsToOneListenGiveTwoConnections) {
  Peer peer([&](Channel& channel) {
    Side side(GetParam());
    HandleMemory first;
    channel.receive(first.data(), first.size());
    // The second from other memory, while both are being made; then a third from memory that was used before.
    HandleMemory second = first;
    void *one = nullptr, *two = nullptr;
    Deadline deadline = Deadline::after(kPatience);
    while (one == nullptr || two == nullptr) {
      if (one == nullptr) {
        REQUIRE(side.plugin().connect(side.context(), 0, first.data(), &one) == abi::ncclSuccess);
      }
      if (two == nullptr) {
        REQUIRE(side.plugin().connect(side.context(), 0, second.data(), &two) == abi::ncclSuccess);
      }
      REQUIRE(!deadline.passed());
    }
    void* three = side.connect(first);
    REQUIRE(one != two && two != three && one != three);
    std::vector<void*> comms{one, two, three};
    for (std::size_t i = 0; i < comms.size(); ++i) {
      auto data = pattern(1000, static_cast<unsigned>(i));
      REQUIRE(side.finish(side.send(comms[i], data)) == data.size());
    }
    channel.wait();
    for (void* comm : comms) side.plugin().close_send(comm);
  });
  Side side(GetParam());
  HandleMemory handle{};
  void* listen_comm = side.listen(handle);
  peer.channel().send(handle.data(), handle.size());
  std::vector<void*> comms;
  for (int i = 0; i < 3; ++i) comms.push_back(side.accept(listen_comm));
  // Exactly one accept per connect.
  void* more = nullptr;
  EXPECT_EQ(side.plugin().accept(listen_comm, &more), abi::ncclSuccess);
  EXPECT_EQ(more, nullptr);
  std::vector<std::vector<std::byte>> received;
  for (void* comm : comms) {
    std::vector<std::byte> buffer(1000);
    EXPECT_EQ(side.finish(side.receive(comm, buffer)), buffer.size());
    received.push_back(buffer);
  }
  for (unsigned i = 0; i < 3; ++i) EXPECT_EQ(std::ranges::count(received, pattern(1000, i)), 1);
  peer.channel().signal();
  peer.join();
  for (void* comm : comms) side.plugin().close_receive(comm);
  side.plugin().close_listen(listen_comm);
}

/// Calls connect until it fails; the result, and the time that it took.
abi::ncclResult_t connect_badly(Side& side, HandleMemory& handle, Duration& took) {
  const auto begin = Clock::steady().now();
  for (const auto deadline = Deadline::after(kPatience); !deadline.passed();) {
    void* comm = nullptr;
    const abi::ncclResult_t result = side.plugin().connect(side.context(), 0, handle.data(), &comm);
    took = Clock::steady().now() - begin;
    REQUIRE(comm == nullptr);
    if (result != abi::ncclSuccess) return result;
  }
  REQUIRE(!"connect failed in time");
  return abi::ncclSuccess;
}

// Long before TOMBOLO_NET_DEADLINE, whether the peer has other listeners or none at all.
TEST(NetClosedListen, MakesAConnectToItFailSoonAndSaysSo) {
  for (const bool another : {true, false}) {
    SCOPED_TRACE(another ? "another listener is there" : "no listener is there");
    Peer peer([&](Channel& channel) {
      Side side(kNewestAbi);
      HandleMemory handle{}, other{};
      void* listen_comm = side.listen(handle);
      void* other_listen = another ? side.listen(other) : nullptr;
      side.plugin().close_listen(listen_comm);
      channel.send(handle.data(), handle.size());
      channel.wait();
      if (another) side.plugin().close_listen(other_listen);
    });
    Side side(kNewestAbi);
    HandleMemory handle{};
    peer.channel().receive(handle.data(), handle.size());
    Duration took{};
    take_log();
    EXPECT_EQ(connect_badly(side, handle, took), abi::ncclRemoteError);
    const auto lines = take_log();
    ASSERT_FALSE(lines.empty());
    EXPECT_NE(lines.back().find(another ? "listener is gone" : "nothing listens there any more"),
              std::string::npos)
        << lines.back();
    peer.channel().signal();
    EXPECT_NO_THROW(peer.join());
  }
}

TEST_P(NetConnect, AForeignHandleIsRefusedWithAReason) {
  Side side(GetParam());
  HandleMemory handle{};
  void* listen_comm = side.listen(handle);
  auto refuse = [&](HandleMemory bad, std::string_view reason) {
    take_log();
    void* comm = &side;
    EXPECT_EQ(side.plugin().connect(side.context(), 0, bad.data(), &comm), abi::ncclRemoteError);
    EXPECT_EQ(comm, nullptr);
    auto lines = take_log();
    ASSERT_FALSE(lines.empty());
    EXPECT_NE(lines.back().find(reason), std::string::npos) << lines.back();
  };
  refuse(HandleMemory{}, "another net plugin");
  HandleMemory newer = handle;
  newer[4] = std::byte{200};
  refuse(newer, "version 200");
  HandleMemory too_long = handle;
  too_long[5] = std::byte{255};
  refuse(too_long, "255 bytes");
  side.plugin().close_listen(listen_comm);
}

TEST_P(NetConnect, AnAbandonedConnectIsForgotten) {
  // NCCL aborts a communicator while its connections are being made; the handle's memory is then used again.
  Peer peer([&](Channel& channel) {
    Side side(GetParam());
    HandleMemory handle, next;
    channel.receive(handle.data(), handle.size());
    channel.receive(next.data(), next.size());
    void* comm = nullptr;
    REQUIRE(side.plugin().connect(side.context(), 0, handle.data(), &comm) == abi::ncclSuccess);
    REQUIRE(comm == nullptr);
    handle = next;
    comm = side.connect(handle);
    auto data = pattern(10, 1);
    REQUIRE(side.finish(side.send(comm, data)) == data.size());
    channel.wait();
    side.plugin().close_send(comm);
  });
  Side side(GetParam());
  HandleMemory first{}, second{};
  void* first_listen = side.listen(first);
  void* second_listen = side.listen(second);
  EXPECT_NE(first, second);
  peer.channel().send(first.data(), first.size());
  peer.channel().send(second.data(), second.size());
  void* comm = side.accept(second_listen);
  std::vector<std::byte> buffer(10);
  EXPECT_EQ(side.finish(side.receive(comm, buffer)), buffer.size());
  EXPECT_EQ(buffer, pattern(10, 1));
  peer.channel().signal();
  peer.join();
  side.plugin().close_receive(comm);
  side.plugin().close_listen(first_listen);
  side.plugin().close_listen(second_listen);
}

}  // namespace
}  // namespace tombolo::net_plugin::test
