// How fast a fabric may be declared to be. What else is refused: cluster_file_test.cpp.
#include "topology/files/cluster_file_fabrics.h"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

namespace tombolo::topology {
namespace {

/// A host of the cluster with one NIC on fabric "f" for each rate, in Gbit/s; 0 = not known.
Host host_on_fabric(const std::string& cluster, std::initializer_list<unsigned> rates) {
  Host host;
  host.cluster = cluster;
  for (const unsigned rate : rates) {
    Nic nic;
    nic.fabric = "f";
    nic.rate_bits_per_second = rate * std::uint64_t{1'000'000'000};
    host.nics.push_back(nic);
  }
  return host;
}

std::vector<FabricDefault> read_fabrics(const Json& list, const std::vector<Host>& hosts) {
  return fabrics_of(JsonDocument::parse(list.dump(), "c.json").root(), hosts);
}

/// Whether fabric "f" may be declared with so many bytes per second, as a whole or between clusters.
bool takes_rate(double bytes_per_second, const std::vector<Host>& hosts, const char* from = nullptr,
                const char* to = nullptr) {
  Json entry{{"name", "f"}, {"bytes_per_second", bytes_per_second}, {"latency_seconds", 0}};
  if (from != nullptr) entry["from_cluster"] = from;
  if (to != nullptr) entry["to_cluster"] = to;
  try {
    read_fabrics(Json::array({entry}), hosts);
    return true;
  } catch (const Error& error) {
    EXPECT_NE(std::string(error.what()).find("are more than the fastest NIC there can carry"),
              std::string::npos)
        << error.what();
    return false;
  }
}

TEST(FabricDefaults, CannotBeFasterThanTheFastestNicOfTheFabric) {
  const std::vector<Host> hosts{host_on_fabric("A", {8, 16}), host_on_fabric("B", {40})};
  EXPECT_TRUE(takes_rate(5e9, hosts)) << "of any cluster";
  EXPECT_FALSE(takes_rate(5.1e9, hosts));
}

TEST(FabricDefaults, BetweenClustersCannotBeFasterThanTheSlowerOfThem) {
  const std::vector<Host> hosts{host_on_fabric("A", {8, 16}), host_on_fabric("B", {40})};
  EXPECT_TRUE(takes_rate(2e9, hosts, "A", "B"));
  EXPECT_FALSE(takes_rate(2.1e9, hosts, "A", "B"));
  EXPECT_FALSE(takes_rate(2.1e9, hosts, "B", "A"));
  EXPECT_TRUE(takes_rate(5e9, hosts, "B", "B"));
  EXPECT_FALSE(takes_rate(5.1e9, hosts, "B", "B"));
}

TEST(FabricDefaults, HaveNoLimitWhereTheRateOfANicIsNotKnown) {
  const std::vector<Host> hosts{host_on_fabric("A", {8}), host_on_fabric("B", {0, 40}),
                                host_on_fabric("C", {16})};
  EXPECT_TRUE(takes_rate(1e11, hosts)) << "it may be the fastest";
  EXPECT_TRUE(takes_rate(1e11, hosts, "B", "B"));
  EXPECT_TRUE(takes_rate(1e9, hosts, "A", "B"));
  EXPECT_FALSE(takes_rate(1.1e9, hosts, "A", "B")) << "the other end's is known";
  EXPECT_FALSE(takes_rate(1.1e9, hosts, "B", "A"));
  EXPECT_FALSE(takes_rate(1.1e9, hosts, "A", "C"));
}

TEST(FabricDefaults, AreOneForTheFabricAndOneForEachDirection) {
  const std::vector<Host> hosts{host_on_fabric("A", {8}), host_on_fabric("B", {8})};
  const auto entry = [](const char* from, const char* to) {
    Json json{{"name", "f"}, {"bytes_per_second", 1e9}, {"latency_seconds", 1e-6}};
    if (from != nullptr) json["from_cluster"] = from;
    if (to != nullptr) json["to_cluster"] = to;
    return json;
  };
  const auto read = read_fabrics(
      Json::array({entry(nullptr, nullptr), entry("A", "B"), entry("B", "A"), entry("A", "A")}), hosts);
  ASSERT_EQ(read.size(), 4U);
  EXPECT_EQ(read[0].from_cluster, "");
  EXPECT_EQ(read[2].from_cluster, "B");
  EXPECT_EQ(read[2].to_cluster, "A");
  EXPECT_EQ(read[3].latency_seconds, 1e-6);
}

}  // namespace
}  // namespace tombolo::topology
