// What a cluster file is written like. That all of it comes back when read: cluster_file_test.cpp.
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "topology/files/nic_json.h"

namespace tombolo::topology {
namespace {

TEST(WrittenCluster, LeavesOutWhatIsUnknownOrAsByDefault) {
  Nic nic;
  nic.name = "eth0";
  nic.state = NicState::kUp;
  EXPECT_EQ(nic_json(nic), Json::parse(R"({"name": "eth0", "kind": "tcp"})"));
  nic.state = NicState::kUnknown;
  nic.role = NicRole::kVlan;
  nic.numa_node = 0;
  nic.rate_bits_per_second = 2'500'000'000;
  EXPECT_EQ(nic_json(nic), Json::parse(R"({"name": "eth0", "kind": "tcp", "state": "unknown", "role": "vlan",
                                           "numa_node": 0, "rate_gbps": 2.5})"))
      << "node 0 is a node";
  Device device;
  device.name = "cpu";
  EXPECT_EQ(device_json(device), Json::parse(R"({"name": "cpu", "kind": "cpu"})"));
  ClusterFile cluster;
  EXPECT_EQ(cluster.to_json(), Json::parse(R"({"tombolo_cluster": 1, "emulated": false, "hosts": []})"));
}

TEST(WrittenCluster, NamesTheRdmaPortWithItsDeviceOnly) {
  Nic nic;
  nic.name = "ib0";
  nic.kind = NicKind::kInfiniBand;
  nic.state = NicState::kUp;
  nic.rdma_port = 2;
  EXPECT_FALSE(nic_json(nic).contains("rdma_port"));
  nic.rdma_device = "mlx5_0";
  EXPECT_EQ(nic_json(nic)["rdma_port"], 2);
}

TEST(WrittenCluster, CountsDevicesThatFollowEachOtherAndAreAlike) {
  const auto device_named = [](const char* name, const char* pci_path = "") {
    Device device;
    device.name = name;
    device.pci_path = pci_path;
    return device;
  };
  ClusterFile cluster;
  cluster.hosts.resize(1);
  auto& devices = cluster.hosts[0].devices;
  devices = {device_named("x"), device_named("x"),           device_named("y"),
             device_named("x"), device_named("z", "/sys/z"), device_named("z", "/sys/z"),
             device_named("x"), device_named("x"),           device_named("x")};
  std::string written;
  const Json json = cluster.to_json();
  for (const Json& entry : json["hosts"][0]["devices"])
    written += fmt::format("{}{} ", entry.value("count", 1), entry["name"].get<std::string>());
  EXPECT_EQ(written, "2x 1y 1x 1z 1z 3x ") << "a place on the bus is of one device";
  devices[1].flops_per_second = 1;
  EXPECT_EQ(cluster.to_json()["hosts"][0]["devices"].size(), 7U) << "these two differ";
}

TEST(WrittenCluster, JoinsHostAndNicOfEveryEnd) {
  ClusterFile cluster;
  cluster.links = {{"a", "mlx5_0/1", "b", "eth0", 1e9, 1e-6, true}};
  cluster.shared_links = {{"A to B", {{"a", "mlx5_0/1"}, {"a", "eth0"}}, {{"b", "eth0"}}, 2e9}};
  const Json json = cluster.to_json();
  EXPECT_EQ(json["links"][0]["from"], "a/mlx5_0/1");
  EXPECT_EQ(json["links"][0]["to"], "b/eth0");
  EXPECT_EQ(json["links"][0]["measured"], true);
  EXPECT_EQ(json["shared_links"][0]["from"], (Json{"a/mlx5_0/1", "a/eth0"}));
  EXPECT_EQ(json["shared_links"][0]["to"], Json::array({"b/eth0"}));
}

}  // namespace
}  // namespace tombolo::topology
