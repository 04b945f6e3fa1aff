// What NCCL relies on in a net plugin, point by point: loading, devices, and making connections.
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
#include "tests/process/net_harness.h"

namespace tombolo::net_plugin::test {
namespace {

class NetSetup : public testing::TestWithParam<int> {};

INSTANTIATE_TEST_SUITE_P(Abi, NetSetup, abi_versions(),
                         [](const auto& test) { return fmt::format("v{}", test.param); });

/// Sets a variable for the life of the object.
class Environment {
 public:
  Environment(const char* name, const std::string& value) : name_(name) {
    if (const char* before = std::getenv(name)) before_ = before;
    ::setenv(name, value.c_str(), 1);
  }
  ~Environment() {
    if (before_) {
      ::setenv(name_, before_->c_str(), 1);
    } else {
      ::unsetenv(name_);
    }
  }
  Environment(const Environment&) = delete;
  Environment& operator=(const Environment&) = delete;

 private:
  const char* name_;
  std::optional<std::string> before_;
};

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

TEST_P(NetSetup, ConnectAndAcceptNeverBlockAndAreAskedAgain) {
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

TEST_P(NetSetup, CloseListenRightAfterAcceptLeavesTheConnectionAlone) {
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

TEST_P(NetSetup, TwoConnectsToOneListenGiveTwoConnections) {
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

TEST_P(NetSetup, AForeignHandleIsRefusedWithAReason) {
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

TEST_P(NetSetup, AnAbandonedConnectIsForgotten) {
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

/// Host names a0 and a1 in an InfiniBand cluster, b0 in a RoCE one, an Ethernet that all share; carried over
/// loopback addresses.
std::string write_cluster_file(const std::filesystem::path& folder) {
  auto host = [](const char* name, const char* cluster, const char* kind, int address) {
    return fmt::format(
        R"({{"name": "{0}", "cluster": "{1}", "nics": [
  {{"name": "fast0", "kind": "{2}", "fabric": "fast-{1}", "rate_gbps": 100, "address": "127.0.1.{3}", "emulated": true}},
  {{"name": "eth0", "kind": "tcp", "rate_gbps": 1, "address": "127.0.0.{3}"}}],
  "devices": [{{"name": "cpu", "kind": "cpu"}}]}})",
        name, cluster, kind, address);
  };
  auto path = folder / "cluster.json";
  std::ofstream(path) << R"({"tombolo_cluster": 1, "emulated": true, "hosts": [)"
                      << host("a0", "A", "infiniband", 10) << "," << host("a1", "A", "infiniband", 11) << ","
                      << host("b0", "B", "roce", 12) << "]}";
  return path;
}

TEST_P(NetSetup, EveryConnectionChoosesItsOwnTransport) {
  std::filesystem::path folder = testing::TempDir() + fmt::format("net_conformance.{}", ::getpid());
  std::filesystem::create_directories(folder);
  Environment cluster("TOMBOLO_CLUSTER", write_cluster_file(folder));
  auto peer_body = [](const char* host) {
    return [host](Channel& channel) {
      Environment self("TOMBOLO_HOST", host);
      Side side(GetParam());
      HandleMemory handle;
      channel.receive(handle.data(), handle.size());
      take_log();
      void* comm = side.connect(handle);
      auto data = pattern(5000, 9);
      REQUIRE(side.finish(side.send(comm, data)) == data.size());
      std::string lines;
      for (const std::string& line : take_log()) lines += line + "\n";
      auto size = static_cast<unsigned>(lines.size());
      channel.send(&size, sizeof size);
      channel.send(lines.data(), size);
      channel.wait();
      side.plugin().close_send(comm);
    };
  };
  Peer same_cluster(peer_body("a1")), other_cluster(peer_body("b0"));
  {
    Environment self("TOMBOLO_HOST", "a0");
    Side side(GetParam());
    abi::ncclNetProperties_v12_t properties{};
    ASSERT_EQ(side.plugin().get_properties(0, &properties), abi::ncclSuccess);
    EXPECT_EQ(properties.speed, 100'000);
    if (GetParam() >= 12) {
      EXPECT_EQ(properties.railId, 0) << "the first fabric of its cluster";
    }
    auto route_to = [&](Peer& peer) {
      HandleMemory handle{};
      void* listen_comm = side.listen(handle);
      peer.channel().send(handle.data(), handle.size());
      void* comm = side.accept(listen_comm);
      side.plugin().close_listen(listen_comm);
      std::vector<std::byte> buffer(5000);
      EXPECT_EQ(side.finish(side.receive(comm, buffer)), buffer.size());
      EXPECT_EQ(buffer, pattern(5000, 9));
      unsigned size = 0;
      peer.channel().receive(&size, sizeof size);
      std::string lines(size, ' ');
      peer.channel().receive(lines.data(), size);
      peer.channel().signal();
      peer.join();
      side.plugin().close_receive(comm);
      return lines;
    };
    std::string near = route_to(same_cluster), far = route_to(other_cluster);
    EXPECT_NE(near.find("fast0"), near.npos) << near;
    EXPECT_NE(near.find("127.0.1.10"), near.npos) << near;
    EXPECT_NE(far.find("eth0"), far.npos) << far;
    EXPECT_NE(far.find("127.0.0.10"), far.npos) << far;
  }
  std::filesystem::remove_all(folder);
}

TEST_P(NetSetup, AForbiddenFallbackToTcpIsAnErrorThatSaysWhy) {
  std::filesystem::path folder = testing::TempDir() + fmt::format("net_conformance.{}", ::getpid());
  std::filesystem::create_directories(folder);
  auto path = folder / "cluster.json";
  // Two hosts of one cluster whose fast NICs are on different fabrics.
  auto host = [](const char* name, int address) {
    return fmt::format(R"({{"name": "{0}", "cluster": "A", "devices": [], "nics": [
  {{"name": "fast0", "kind": "roce", "fabric": "of-{0}", "address": "127.0.1.{1}", "emulated": true}},
  {{"name": "eth0", "kind": "tcp", "address": "127.0.0.{1}"}}]}})",
                       name, address);
  };
  std::ofstream(path) << R"({"tombolo_cluster": 1, "require": "rdma", "hosts": [)" << host("a0", 10) << ","
                      << host("a1", 11) << "]}";
  Environment cluster("TOMBOLO_CLUSTER", path);
  Peer peer([](Channel& channel) {
    Environment self("TOMBOLO_HOST", "a1");
    Side side(GetParam());
    HandleMemory handle;
    channel.receive(handle.data(), handle.size());
    take_log();
    void* comm = nullptr;
    REQUIRE(side.plugin().connect(side.context(), 0, handle.data(), &comm) == abi::ncclInvalidUsage);
    REQUIRE(comm == nullptr);
    auto lines = take_log();
    REQUIRE(!lines.empty());
    REQUIRE(lines.back().starts_with("2 ") && lines.back().find("rdma") != std::string::npos);
    REQUIRE(lines.back().find("127.0.1.10") != std::string::npos);
  });
  {
    Environment self("TOMBOLO_HOST", "a0");
    Side side(GetParam());
    HandleMemory handle{};
    void* listen_comm = side.listen(handle);
    peer.channel().send(handle.data(), handle.size());
    EXPECT_NO_THROW(peer.join());
    side.plugin().close_listen(listen_comm);
  }
  std::filesystem::remove_all(folder);
}

// NCCL takes devices in one place for ports of one NIC, makes one device of them, and asks for all again.
TEST_P(NetSetup, SeveralDevicesBecomeOneThatCarries) {
  if (GetParam() < 9) GTEST_SKIP() << "virtual devices came with v9";
  std::filesystem::path folder = testing::TempDir() + fmt::format("net_conformance.{}", ::getpid());
  std::filesystem::create_directories(folder);
  auto path = folder / "cluster.json";
  auto host = [](const char* name, int address) {
    // Any folders that there are stand for places on the PCI bus.
    return fmt::format(R"({{"name": "{0}", "cluster": "A", "devices": [], "nics": [
  {{"name": "f0", "kind": "roce", "fabric": "f", "address": "127.0.1.{1}", "emulated": true, "rate_gbps": 100, "pci_path": "/proc/self"}},
  {{"name": "f1", "kind": "roce", "fabric": "f", "address": "127.0.2.{1}", "emulated": true, "rate_gbps": 100, "pci_path": "/proc/self/fd"}},
  {{"name": "f2", "kind": "roce", "fabric": "f", "address": "127.0.3.{1}", "emulated": true, "rate_gbps": 50}}]}})",
                       name, address);
  };
  std::ofstream(path) << R"({"tombolo_cluster": 1, "hosts": [)" << host("a0", 10) << "," << host("a1", 11)
                      << "]}";
  Environment cluster("TOMBOLO_CLUSTER", path);
  Environment transports("TOMBOLO_TRANSPORTS", "tcp");  // RDMA NICs that are only declared carry nothing else
  const auto fuse = [](Side& side) {
    int device = -1;
    REQUIRE(side.plugin().make_device(&device, {2, {0, 1}}) == abi::ncclSuccess);
    REQUIRE(device == 3);
    REQUIRE(side.plugin().make_device(&device, {2, {0, 1}}) == abi::ncclSuccess);
    REQUIRE(device == 3);
  };
  Peer peer([&](Channel& channel) {
    Environment self("TOMBOLO_HOST", "a1");
    Side side(GetParam());
    fuse(side);
    HandleMemory handle;
    channel.receive(handle.data(), handle.size());
    void* comm = side.connect(handle, 3);
    const auto data = pattern(5000, 9);
    REQUIRE(side.finish(side.send(comm, data)) == data.size());
    channel.wait();
    side.plugin().close_send(comm);
  });
  {
    Environment self("TOMBOLO_HOST", "a0");
    Side side(GetParam());
    fuse(side);
    int count = 0, device = -1;
    ASSERT_EQ(side.plugin().devices(&count), abi::ncclSuccess);
    EXPECT_EQ(count, 4);
    abi::ncclNetProperties_v12_t properties{};
    ASSERT_EQ(side.plugin().get_properties(3, &properties), abi::ncclSuccess);
    EXPECT_STREQ(properties.name, "f0+f1");
    EXPECT_EQ(properties.speed, 200'000);
    EXPECT_EQ(properties.vProps.ndevs, 2);
    EXPECT_EQ(properties.vProps.devs[0], 0);
    EXPECT_EQ(properties.vProps.devs[1], 1);
    take_log();
    EXPECT_EQ(side.plugin().make_device(&device, {2, {0, 2}}), abi::ncclInvalidUsage);
    const auto lines = take_log();
    ASSERT_EQ(lines.size(), 1U);
    EXPECT_TRUE(lines[0].starts_with("3 ")) << "NCCL goes on without: " << lines[0];
    EXPECT_NE(lines[0].find("f2 is not on the PCI bus"), std::string::npos) << lines[0];

    HandleMemory handle{};
    void* listen_comm = side.listen(handle, 3);
    peer.channel().send(handle.data(), handle.size());
    void* comm = side.accept(listen_comm);
    std::vector<std::byte> buffer(5000);
    EXPECT_EQ(side.finish(side.receive(comm, buffer)), buffer.size());
    EXPECT_EQ(buffer, pattern(5000, 9));
    peer.channel().signal();
    EXPECT_NO_THROW(peer.join());
    side.plugin().close_receive(comm);
    side.plugin().close_listen(listen_comm);
  }
  std::filesystem::remove_all(folder);
}

}  // namespace
}  // namespace tombolo::net_plugin::test
