#include "probe/analyse/fabrics.h"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

namespace tombolo::probe {
namespace {

// Hosts a0, a1 of A and b0, b1 of B, each with a NIC on the fabric "ib" and one on the Ethernet of all.
topology::ClusterFile one_name_for_all() {
  topology::ClusterFile cluster;
  for (const char* name : {"a0", "a1", "b0", "b1"}) {
    topology::Host host;
    host.name = name;
    host.cluster = name[0] == 'a' ? "A" : "B";
    topology::Nic fast, slow;
    fast.name = "ib0";
    fast.kind = topology::NicKind::kInfiniBand;
    fast.fabric = "ib";
    fast.emulated = true;
    slow.name = "eth0";
    host.nics = {fast, slow};
    cluster.hosts.push_back(host);
  }
  return cluster;
}

void measured(topology::ClusterFile& cluster, const char* from, const char* to) {
  cluster.links.push_back({from, "ib0", to, "ib0", 1e9, 1e-5, true});
  cluster.links.push_back({to, "ib0", from, "ib0", 1e9, 1e-5, true});
}

LinkFailure failed(const char* from, const char* to) {
  return {from, "ib0", to, "ib0", "ib", "nobody answers"};
}

TEST(SeparateFabrics, GroupsThatDoNotReachEachOtherGetTheirOwn) {
  auto cluster = one_name_for_all();
  measured(cluster, "a0", "a1");
  measured(cluster, "b0", "b1");
  std::vector<std::string> unexplained;
  auto told = separate_fabrics(
      cluster, {failed("a0", "b0"), failed("a0", "b1"), failed("a1", "b0"), failed("a1", "b1")}, unexplained);
  EXPECT_TRUE(unexplained.empty());
  ASSERT_EQ(told.size(), 1U);
  EXPECT_NE(told[0].find("'ib-A' (a0 a1), 'ib-B' (b0 b1)"), std::string::npos) << told[0];
  EXPECT_EQ(cluster.find_host("a1")->nics[0].fabric, "ib-A");
  EXPECT_EQ(cluster.find_host("b0")->nics[0].fabric, "ib-B");
  EXPECT_EQ(cluster.find_host("b0")->nics[1].fabric, "");
  EXPECT_EQ(cluster.unreachable, (std::vector<std::pair<std::string, std::string>>{{"ib-A", "ib-B"}}));
}

TEST(SeparateFabrics, PartsOfOneClusterAreNamedAfterAHost) {
  auto cluster = one_name_for_all();
  for (auto& host : cluster.hosts) host.cluster = "A";
  measured(cluster, "a0", "a1");
  measured(cluster, "b0", "b1");
  std::vector<std::string> unexplained;
  separate_fabrics(cluster, {failed("a0", "b0")}, unexplained);
  EXPECT_EQ(cluster.find_host("a1")->nics[0].fabric, "ib-a0");
  EXPECT_EQ(cluster.find_host("b1")->nics[0].fabric, "ib-b0");
}

TEST(SeparateFabrics, APairThatOthersJoinIsLeftUnexplained) {
  auto cluster = one_name_for_all();
  measured(cluster, "a0", "a1");
  measured(cluster, "a1", "b0");
  measured(cluster, "b0", "b1");
  std::vector<std::string> unexplained;
  EXPECT_TRUE(separate_fabrics(cluster, {failed("a0", "b0")}, unexplained).empty());
  ASSERT_EQ(unexplained.size(), 1U);
  EXPECT_NE(unexplained[0].find("a0 ib0 and b0 ib0 did not reach each other: nobody answers"),
            std::string::npos)
      << unexplained[0];
  EXPECT_EQ(cluster.find_host("a0")->nics[0].fabric, "ib");
  EXPECT_TRUE(cluster.unreachable.empty());
}

TEST(SeparateFabrics, TheEthernetOfAllStaysOneAndWhatWasDeclaredOfTheOldNameHoldsOfTheNew) {
  auto cluster = one_name_for_all();
  cluster.hosts[3].nics[0].fabric = "other";
  cluster.unreachable = {{"other", "ib"}};
  std::vector<std::string> unexplained;
  measured(cluster, "a0", "a1");
  const LinkFailure ethernet{"a0", "eth0", "b1", "eth0", "", "nobody answers"};
  separate_fabrics(cluster, {failed("a0", "b0"), failed("a1", "b0"), ethernet}, unexplained);
  EXPECT_EQ(unexplained.size(), 1U);
  EXPECT_EQ(cluster.unreachable, (std::vector<std::pair<std::string, std::string>>{
                                     {"ib-A", "other"}, {"ib-B", "other"}, {"ib-A", "ib-B"}}));
  // What the probe writes can be read again.
  EXPECT_NO_THROW(topology::ClusterFile::parse(JsonDocument::parse(cluster.to_json().dump(), "written")));
}

TEST(SeparateFabrics, NothingFailedNothingChanges) {
  auto cluster = one_name_for_all();
  std::vector<std::string> unexplained;
  EXPECT_TRUE(separate_fabrics(cluster, {}, unexplained).empty());
  EXPECT_TRUE(unexplained.empty());
}

}  // namespace
}  // namespace tombolo::probe
