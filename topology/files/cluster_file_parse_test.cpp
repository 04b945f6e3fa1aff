// Fields of the cluster file one by one. Whole files: cluster_file_test.cpp.
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "topology/files/cluster_file.h"

namespace tombolo::topology {
namespace {

Json file_of_one_nic(const Json& fields) {
  Json nic{{"name", "eth0"}, {"kind", "tcp"}};
  nic.update(fields);
  return {
      {"tombolo_cluster", 1},
      {"hosts",
       Json::array(
           {{{"name", "a"}, {"cluster", "A"}, {"nics", Json::array({nic})}, {"devices", Json::array()}}})}};
}

ClusterFile read_file(const Json& json) {
  return ClusterFile::parse(JsonDocument::parse(json.dump(), "c.json"));
}

Nic read_nic(const Json& fields) {
  return read_file(file_of_one_nic(fields)).hosts.at(0).nics.at(0);
}

void expect_refused_file(const Json& json, std::string_view part) {
  try {
    read_file(json);
    ADD_FAILURE() << "accepted: " << json.dump();
  } catch (const Error& error) {
    EXPECT_EQ(error.cause(), Cause::kInvalidUsage);
    EXPECT_NE(std::string(error.what()).find(part), std::string::npos) << error.what();
  }
}

TEST(ClusterFileFields, AnAddressIsOneOfIpWithAScopeWhereIpv6HasOne) {
  EXPECT_EQ(read_nic({{"address", "fe80::1%eth0"}}).addresses, std::vector<std::string>{"fe80::1%eth0"});
  EXPECT_EQ(read_nic({{"addresses", {"10.0.0.1", "::1"}}}).addresses.size(), 2U);
  for (const char* bad : {"10.0.0.1%eth0", "10.0.0", "fe80::1/64", "", "host"})
    expect_refused_file(file_of_one_nic({{"address", bad}}), "address: expected an IPv4 or IPv6 address");
  expect_refused_file(file_of_one_nic({{"address", std::string("10.0.0.1\0x", 10)}}),
                      "address: expected an IPv4 or IPv6 address");
}

TEST(ClusterFileFields, ANetworkHasItsPrefixLength) {
  const Nic nic = read_nic({{"networks", {"10.2.0.0/24", "fd00:2::/64"}}, {"routes", {"0.0.0.0/0", "::/0"}}});
  EXPECT_EQ(nic.networks, (std::vector<std::string>{"10.2.0.0/24", "fd00:2::/64"}));
  EXPECT_EQ(nic.routes, (std::vector<std::string>{"0.0.0.0/0", "::/0"}));
  for (const char* bad : {"10.2.0.0", "10.2.0.0/33", "10.2.0.0/", "/24", "10.2.0.0/-1", "fd00::/129", ""})
    expect_refused_file(file_of_one_nic({{"networks", {bad}}}), "networks[0]: expected a network as");
  expect_refused_file(file_of_one_nic({{"routes", {std::string("10.2.0.0/24\0", 12)}}}),
                      "routes[0]: expected a network as");
}

TEST(ClusterFileFields, AnRdmaDeviceHasItsFirstPortUnlessAnotherIsNamed) {
  const Json roce{{"kind", "roce"}, {"rdma_device", "mlx5_0"}};
  EXPECT_EQ(read_nic(roce).rdma_port, 1);
  Json second = roce;
  second["rdma_port"] = 2;
  EXPECT_EQ(read_nic(second).rdma_port, 2);
  EXPECT_EQ(read_nic(Json::object()).rdma_port, 0);
  second["rdma_port"] = 0;
  expect_refused_file(file_of_one_nic(second), "rdma_port: expected an integer from 1 to 255");
}

TEST(ClusterFileFields, AGidHasIndexValueAndType) {
  const Json gid{{"index", 3}, {"value", "fe80::1"}, {"type", "RoCE v2"}};
  const auto with = [&](const char* field, const Json& value) {
    Json changed = gid;
    changed[field] = value;
    return file_of_one_nic({{"gids", Json::array({changed})}});
  };
  const Nic nic = read_nic({{"gids", Json::array({gid})}});
  ASSERT_EQ(nic.gids.size(), 1U);
  EXPECT_EQ(nic.gids[0].index, 3);
  EXPECT_EQ(nic.gids[0].type, "RoCE v2");
  expect_refused_file(with("index", 65536), "gids[0].index: expected an integer from 0 to 65535");
  expect_refused_file(with("value", "nothing"), "gids[0].value: expected an IPv4 or IPv6");
  expect_refused_file(with("type", "RoCE v3"), "gids[0].type: expected one of");
  expect_refused_file(with("types", 1), "gids[0].types: unknown field");
}

TEST(ClusterFileFields, ANewerVersionIsNamedBeforeItsFields) {
  Json newer = file_of_one_nic({{"colour", "blue"}});
  newer["tombolo_cluster"] = 7;
  newer["galaxy"] = 1;
  expect_refused_file(newer, "reads version 1 of the cluster file, found version 7");
}

TEST(ClusterFileFields, PairsOfFabricsAreTwoAndHostsOfAProcessorAreListedOnce) {
  Json json = file_of_one_nic({{"fabric", "f"}});
  json["unreachable"] = Json::array({Json::array({"f"})});
  expect_refused_file(json, "unreachable[0]: expected two fabrics, found 1");
  json.erase("unreachable");
  json["shared_processor"] = {{"hosts", {"a", "a"}}, {"cores", 2}};
  expect_refused_file(json, "shared_processor.hosts[1]: host \"a\" is listed twice");
}

TEST(ClusterFileFields, ACountMakesAsManyDevicesWithinReason) {
  Json json = file_of_one_nic(Json::object());
  Json& devices = json["hosts"][0]["devices"];
  devices = Json::parse(R"([{"name": "x", "kind": "gpu", "count": 1024}, {"name": "y", "kind": "cpu"},
                            {"name": "z", "kind": "gpu", "count": 1, "pci_path": "/sys/devices/z"}])");
  const ClusterFile file = read_file(json);
  ASSERT_EQ(file.hosts[0].devices.size(), 1026U);
  EXPECT_EQ(file.hosts[0].devices[1023].name, "x");
  EXPECT_EQ(file.hosts[0].devices[1024].kind, DeviceKind::kCpu);
  devices[0]["count"] = 1025;
  expect_refused_file(json, "devices[0].count: expected an integer from 1 to 1024");
}

}  // namespace
}  // namespace tombolo::topology
