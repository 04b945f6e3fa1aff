// Cluster files and peers at the edges; checks_test.cpp has ordinary ones.
#include <gtest/gtest.h>

#include <algorithm>

#include "base/temporary_folder.h"
#include "planner/testing/testing.h"
#include "tools/cli/testing.h"
#include "tools/doctor/checks.h"

namespace tombolo::doctor {
namespace {

class ReachChecks : public ::testing::Test {
 protected:
  std::vector<Check> check(const topology::ClusterFile& cluster, const std::string& host) const {
    cluster.save(folder_.file("cluster.json"));
    return check_cluster_file(folder_.file("cluster.json"), facts_, host);
  }
  TemporaryFolder folder_;
  Facts facts_;
};

TEST_F(ReachChecks, APlanNeedsMeasuredLinksOnceThereAreTwoHosts) {
  auto cluster = planner::testing::make_cluster({{"a", 2}}, 1e9);
  EXPECT_EQ(check(cluster, "a0").back().name, "measured links");
  EXPECT_EQ(check(cluster, "a0").back().status, Status::kOk);
  EXPECT_EQ(check(cluster, "a0").back().seen, "2 of 2");
  for (auto& link : cluster.links) link.measured = false;
  EXPECT_EQ(check(cluster, "a0").back().status, Status::kWarning);
  EXPECT_MENTIONS(check(cluster, "a0").back().advice, "tombolo probe --out");
  EXPECT_EQ(check(planner::testing::make_cluster({{"a", 1}}, 1e9), "a0").back().status, Status::kOk);
}

TEST_F(ReachChecks, NicsOfAnEmulationNeedNotBeHere) {
  auto cluster = planner::testing::make_cluster({{"a", 2}}, 1e9);
  const auto nic = [&] {
    const auto checks = check(cluster, "a0");
    return std::ranges::find(checks, "NIC eth", &Check::name) != checks.end();
  };
  EXPECT_TRUE(nic());
  cluster.emulated = true;
  EXPECT_FALSE(nic());
  EXPECT_MENTIONS(check(cluster, "a0").front().seen, "2 hosts, 2 links, emulated");
}

TEST_F(ReachChecks, AHostThatTheFileDoesNotNameIsToldWhoIsInIt) {
  const auto checks = check(planner::testing::make_cluster({{"a", 2}}, 1e9), "zebra");
  EXPECT_EQ(checks.back().seen, "'zebra' is not among a0, a1");
  EXPECT_MENTIONS(checks.back().advice, "TOMBOLO_HOST");
}

TEST_F(ReachChecks, WarnsOfAWayOverANicThatTomboloLeavesOut) {
  topology::Nic nic;
  nic.name = "lo";
  nic.addresses = {"127.0.0.1"};
  facts_.machine.nics = {nic};
  EXPECT_EQ(check_peer("127.0.0.1", facts_).at(0).status, Status::kOk);
  EXPECT_MENTIONS(check_peer("127.0.0.1", facts_).at(0).seen, "from 127.0.0.1 (lo), packets of ");
  facts_.machine.nics[0].usable = false;
  facts_.machine.nics[0].reason = "loopback";
  const Check warned = check_peer("127.0.0.1", facts_).at(0);
  EXPECT_EQ(warned.status, Status::kWarning);
  EXPECT_EQ(warned.advice, "the kernel would take lo, which Tombolo leaves out: loopback");
  facts_.machine.nics.clear();
  EXPECT_MENTIONS(check_peer("127.0.0.1", facts_).at(0).seen, "from 127.0.0.1 (?)");
}

}  // namespace
}  // namespace tombolo::doctor
