#include "collectives/schedule/link_facts.h"

#include <gtest/gtest.h>

#include <string>

namespace tombolo::collectives {
namespace {

/// Clusters A of a0 and a1, and B of b0 and b1; between them each pair has 1e8 bytes/s, inside 1e9.
topology::ClusterFile two_by_two() {
  topology::ClusterFile file;
  for (const char* name : {"a0", "a1", "b0", "b1"}) {
    topology::Host& host = file.hosts.emplace_back();
    host.name = name;
    host.cluster = name[0] == 'a' ? "A" : "B";
    host.nics.emplace_back().name = "eth";
  }
  for (const topology::Host& from : file.hosts)
    for (const topology::Host& to : file.hosts) {
      if (from.name == to.name) continue;
      const bool inside = from.cluster == to.cluster;
      file.links.push_back(
          {from.name, "eth", to.name, "eth", inside ? 1e9 : 1e8, inside ? 1e-5 : 1e-2, true});
    }
  return file;
}

const std::vector<RankLocation> kHosts = {{"a0", "A"}, {"b0", "B"}, {"a1", "A"}, {"b1", "B"}};

LinkFacts facts_of(const topology::ClusterFile& file, const std::vector<RankLocation>& hosts = kHosts) {
  return link_facts(file, topology::LinkTable(file), hosts);
}

TEST(LinkFacts, AreTheMediansByLevel) {
  topology::ClusterFile file = two_by_two();
  file.links.front().bytes_per_second = 9e9;
  const LinkFacts facts = facts_of(file);
  EXPECT_EQ(facts.inside.level, Level::kCluster);
  EXPECT_EQ(facts.inside.bytes_per_second, 1e9);
  EXPECT_EQ(facts.inside.latency_seconds, 1e-5);
  EXPECT_EQ(facts.between.level, Level::kBetween);
  EXPECT_EQ(facts.between.bytes_per_second, 1e8);
  EXPECT_EQ(facts.between.latency_seconds, 1e-2);
}

TEST(LinkFacts, CountThatHostsSendBesideEachOther) {
  EXPECT_EQ(facts_of(two_by_two()).uplink_bytes_per_second, 2e8);
  EXPECT_EQ(facts_of(two_by_two(), {{"a0", "A"}, {"a1", "A"}, {"b0", "B"}}).uplink_bytes_per_second, 1e8)
      << "b0 alone gets no more";
  EXPECT_EQ(facts_of(two_by_two(), {{"a0", "A"}, {"a1", "A"}}).uplink_bytes_per_second, 0);
}

TEST(LinkFacts, AreLimitedByALinkThatAllShare) {
  topology::ClusterFile file = two_by_two();
  file.shared_links.push_back(
      {"uplink", {{"a0", "eth"}, {"a1", "eth"}}, {{"b0", "eth"}, {"b1", "eth"}}, 1.5e8});
  EXPECT_EQ(facts_of(file).uplink_bytes_per_second, 1.5e8) << "from A to B";
  file.shared_links.front().to.pop_back();
  EXPECT_EQ(facts_of(file).uplink_bytes_per_second, 2e8) << "what goes to b1 passes beside it";
}

TEST(LinkFacts, OfHostsThatTheFileDoesNotNameAreUnknown) {
  const LinkFacts facts = facts_of(two_by_two(), {{"x0", "X"}, {"y0", "Y"}});
  EXPECT_EQ(facts.between.bytes_per_second, 0);
  EXPECT_EQ(facts.uplink_bytes_per_second, 0);
}

TEST(LinkFacts, AreTheCostModelsFigures) {
  const LinkFacts facts = facts_of(two_by_two());
  const auto costs =
      network_costs({{Level::kHost}, facts.inside, facts.between}, facts.uplink_bytes_per_second);
  ASSERT_TRUE(costs);
  EXPECT_EQ(costs->levels[0], NetworkCosts{}.levels[0]);
  EXPECT_EQ(costs->levels[1], (LinkCost{10'000, 1000}));
  EXPECT_EQ(costs->levels[2], (LinkCost{10'000'000, 10'000}));
  EXPECT_EQ(costs->uplink_byte_ps, 5000U);
  EXPECT_FALSE(network_costs({{Level::kCluster, 1e9, 0}}, 0)) << "no latency";
  EXPECT_FALSE(network_costs({{Level::kCluster, 0, 1e-5}}, 0)) << "no rate";
}

TEST(LinkFacts, TellWhatAClusterSendsInAllFromWhatTwoHostsSend) {
  std::vector<RankLocation> ranks = kHosts;
  const RankMap map = RankMap::make(0, ranks);
  const LinkFacts facts = facts_of(two_by_two());
  const auto known = network_costs({facts.inside, facts.between}, facts.uplink_bytes_per_second);
  const auto unknown = network_costs({facts.inside, facts.between}, 0);
  const JobCosts with(map, *known), without(map, *unknown);
  EXPECT_EQ(with.wire(Level::kBetween, 1'000'000), 5'000'000U);
  EXPECT_EQ(without.wire(Level::kBetween, 1'000'000), 10'000'000U);
  EXPECT_EQ(with.slowest_wire(1'000'000), 10'000'000U) << "of one pair";
  EXPECT_EQ(with.hop(Level::kBetween, 1'000'000), without.hop(Level::kBetween, 1'000'000));
}

}  // namespace
}  // namespace tombolo::collectives
