// What NCCL relies on in a net plugin, point by point: which NICs and transports connections take.
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

class NetRoutes : public testing::TestWithParam<int> {};

INSTANTIATE_TEST_SUITE_P(Abi, NetRoutes, abi_versions(),
                         [](const auto& test) { return fmt::format("v{}", test.param); });

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

TEST_P(NetRoutes, EveryConnectionChoosesItsOwnTransport) {
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

TEST_P(NetRoutes, AForbiddenFallbackToTcpIsAnErrorThatSaysWhy) {
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
TEST_P(NetRoutes, SeveralDevicesBecomeOneThatCarries) {
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
