// What NCCL relies on in a net plugin, point by point: loading and devices.
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <poll.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
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

class NetSetup : public testing::TestWithParam<int> {};

INSTANTIATE_TEST_SUITE_P(Abi, NetSetup, abi_versions(),
                         [](const auto& test) { return fmt::format("v{}", test.param); });

TEST_P(NetSetup, PresentsADeviceWithTheProperties) {
  Side side(GetParam());
  EXPECT_EQ(side.plugin().name(), "Tombolo");
  int count = 0;
  ASSERT_EQ(side.plugin().devices(&count), abi::ncclSuccess);
  ASSERT_GE(count, 1);
  abi::ncclNetProperties_v12_t properties{};
  properties.forceFlush = 7;
  ASSERT_EQ(side.plugin().get_properties(0, &properties), abi::ncclSuccess);
  EXPECT_STRNE(properties.name, "");
  EXPECT_NE(properties.guid, 0U);
  EXPECT_EQ(properties.ptrSupport, abi::NCCL_PTR_HOST);
  EXPECT_GT(properties.speed, 0);
  EXPECT_GE(properties.latency, 0);
  EXPECT_GE(properties.maxComms, 32);
  EXPECT_EQ(properties.maxRecvs, kMaxReceives);
  EXPECT_EQ(properties.netDeviceType, abi::NCCL_NET_DEVICE_HOST);
  EXPECT_EQ(properties.regIsGlobal, 0);
  if (GetParam() >= 9) {
    EXPECT_EQ(properties.forceFlush, 0);
    EXPECT_EQ(properties.vProps.ndevs, 1);
    EXPECT_EQ(properties.vProps.devs[0], 0);
    EXPECT_EQ(properties.maxP2pBytes, kMaxMessageBytes);
    EXPECT_EQ(properties.maxCollBytes, kMaxMessageBytes);
  }
  if (GetParam() >= 11) {
    EXPECT_EQ(properties.maxMultiRequestSize, 1);
  }
  if (GetParam() >= 12) {
    // Without a cluster file there are no rails, nor with one by which both ends of a fabric are on this
    // host.
    EXPECT_EQ(properties.railId, -1);
    EXPECT_EQ(properties.planeId, -1);
  }
  EXPECT_NE(side.plugin().get_properties(count, &properties), abi::ncclSuccess);
  EXPECT_NE(side.plugin().get_properties(-1, &properties), abi::ncclSuccess);
}

/// The traffic classes of this process's TCP connections.
std::set<int> traffic_classes() {
  std::set<int> seen;
  for (int descriptor = 0; descriptor < 1024; ++descriptor) {
    sockaddr_storage peer{};
    socklen_t size = sizeof peer;
    if (::getpeername(descriptor, reinterpret_cast<sockaddr*>(&peer), &size) != 0) continue;
    int value = -1;
    socklen_t length = sizeof value;
    if (peer.ss_family == AF_INET && ::getsockopt(descriptor, IPPROTO_IP, IP_TOS, &value, &length) == 0)
      seen.insert(value);
    if (peer.ss_family == AF_INET6 &&
        ::getsockopt(descriptor, IPPROTO_IPV6, IPV6_TCLASS, &value, &length) == 0)
      seen.insert(value);
  }
  return seen;
}

// NCCL's init hands it over for a communicator, before v11 its connect for one connection.
TEST_P(NetSetup, ACommunicatorsTrafficClassIsThatOfItsPackets) {
  constexpr int kClass = 0x60;
  const auto own_context = [](Side& side) {
    side.plugin().set_traffic_class(kClass);
    void* context = side.context();
    if (GetParam() >= 11) REQUIRE(side.plugin().init(&context, 1, keep_log) == abi::ncclSuccess);
    return context;
  };
  const auto end_of = [](Side& side, void* context) {
    if (GetParam() >= 11) REQUIRE(side.plugin().finalize(context) == abi::ncclSuccess);
  };
  Environment transports("TOMBOLO_TRANSPORTS", "tcp");
  Peer peer([&](Channel& channel) {
    Side side(GetParam());
    void *context = own_context(side), *comm = nullptr;
    HandleMemory handle;
    channel.receive(handle.data(), handle.size());
    for (const auto deadline = Deadline::after(kPatience); comm == nullptr;) {
      REQUIRE(!deadline.passed());
      REQUIRE(side.plugin().connect(context, 0, handle.data(), &comm) == abi::ncclSuccess);
    }
    REQUIRE(traffic_classes() == std::set<int>{GetParam() >= 10 ? kClass : 0});
    channel.signal();
    channel.wait();
    side.plugin().close_send(comm);
    end_of(side, context);
  });
  {
    Side side(GetParam());
    void *context = own_context(side), *listen_comm = nullptr;
    HandleMemory handle{};
    ASSERT_EQ(side.plugin().listen(context, 0, handle.data(), &listen_comm), abi::ncclSuccess);
    peer.channel().send(handle.data(), handle.size());
    void* comm = side.accept(listen_comm);
    EXPECT_EQ(traffic_classes(), std::set<int>{GetParam() >= 11 ? kClass : 0});
    peer.channel().wait();
    peer.channel().signal();
    side.plugin().close_receive(comm);
    side.plugin().close_listen(listen_comm);
    end_of(side, context);
  }
  EXPECT_NO_THROW(peer.join());
}

TEST_P(NetSetup, NcclMaySayAtAnyTimeHowItWillUseItsConnections) {
  Side side(GetParam());
  abi::ncclNetAttr_v11_t attributes{{4, 1, 2, 2}, {-1, -1, -1, -1}, 1, 2, 4};
  EXPECT_EQ(side.plugin().set_attributes(side.context(), &attributes), abi::ncclSuccess);
  EXPECT_EQ(side.plugin().set_attributes(side.context(), &attributes), abi::ncclSuccess);
  if (GetParam() >= 11) {
    EXPECT_NE(side.plugin().set_attributes(nullptr, &attributes), abi::ncclSuccess);
  }
}

TEST_P(NetSetup, SaysAtInitWhatItIsAndWhatItFound) {
  take_log();
  Side side(GetParam());
  auto lines = take_log();
  std::string wanted = fmt::format("net ABI v{}", GetParam());
  EXPECT_TRUE(std::ranges::any_of(lines, [&](const std::string& line) {
    return line.starts_with("3 NET/Tombolo : ") && line.find(wanted) != line.npos &&
           line.find("host memory") != line.npos;
  })) << fmt::format("{} lines, first: {}", lines.size(), lines.empty() ? "" : lines.front());
}

TEST_P(NetSetup, TakesItsNameFromTheEnvironment) {
  // In a process of its own: the name is read when the library is loaded.
  Peer peer([](Channel&) {
    Environment name("TOMBOLO_NET_NAME", "IB");
    Side side(GetParam());
    REQUIRE(side.plugin().name() == "IB");
  });
  peer.join();
}

TEST_P(NetSetup, RejectsAWrongEnvironmentNamingTheVariable) {
  Environment devices("TOMBOLO_NET_DEVICES", "all");
  auto plugin = Client::load(plugin_path(), GetParam());
  take_log();
  void* context = nullptr;
  EXPECT_EQ(plugin->init(&context, 1, keep_log), abi::ncclInvalidUsage);
  auto lines = take_log();
  ASSERT_FALSE(lines.empty());
  EXPECT_TRUE(lines.back().starts_with("2 ")) << lines.back();
  EXPECT_NE(lines.back().find("TOMBOLO_NET_DEVICES"), std::string::npos) << lines.back();
  int count = 0;
  EXPECT_NE(plugin->devices(&count), abi::ncclSuccess);
}

}  // namespace
}  // namespace tombolo::net_plugin::test
