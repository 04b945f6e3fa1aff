#include "collectives/discovery/network_facts.h"

#include <gtest/gtest.h>

#include "base/json.h"

namespace tombolo::collectives {
namespace {

const std::vector<RankLocation> kTwoByTwo = {{"a0", "A"}, {"b0", "B"}, {"a0", "A"}, {"b0", "B"},
                                             {"a1", "A"}, {"b1", "B"}, {"a1", "A"}};

std::vector<Level> levels_of(const NetworkFacts& facts) {
  std::vector<Level> levels;
  for (const LevelFacts& one : facts.levels) levels.push_back(one.level);
  return levels;
}

topology::ClusterFile cluster_file_of_three() {
  auto file = topology::ClusterFile::parse(JsonDocument::parse(R"({
    "tombolo_cluster": 1,
    "hosts": [
      {"name": "a0", "cluster": "A", "nics": [{"name": "e", "kind": "tcp", "address": "10.0.0.1", "rate_gbps": 100}],
       "devices": []},
      {"name": "a1", "cluster": "A", "nics": [{"name": "e", "kind": "tcp", "address": "10.0.0.2", "rate_gbps": 100}],
       "devices": []},
      {"name": "b0", "cluster": "B", "nics": [{"name": "e", "kind": "tcp", "address": "10.0.0.3", "rate_gbps": 100}],
       "devices": []}],
    "links": [
      {"from": "a0/e", "to": "a1/e", "bytes_per_second": 2e9, "latency_seconds": 0.00002},
      {"from": "a1/e", "to": "a0/e", "bytes_per_second": 2e9, "latency_seconds": 0.00002},
      {"from": "a0/e", "to": "b0/e", "bytes_per_second": 1e8, "latency_seconds": 0.03},
      {"from": "b0/e", "to": "a0/e", "bytes_per_second": 1e8, "latency_seconds": 0.03}]})",
                                                               "c.json"));
  file.source = "c.json";
  return file;
}

TEST(NetworkFacts, OfOneHostAreThatItIsOne) {
  const Discovery discovery;
  const std::vector<RankLocation> locations(3, {"vm", ""});
  const NetworkFacts facts = network_facts({.locations = locations, .discovery = discovery});
  EXPECT_EQ(facts.from, KnownFrom::kOneHost);
  EXPECT_EQ(facts.text, "3 ranks on host vm");
  EXPECT_EQ(levels_of(facts), std::vector{Level::kHost});
}

TEST(NetworkFacts, OfDeclaredClustersAreTheClusterFiles) {
  const topology::ClusterFile file = cluster_file_of_three();
  const Discovery discovery;
  const NetworkFacts facts = network_facts(
      {.locations = kTwoByTwo, .declared = true, .discovery = discovery, .cluster_file = &file});
  EXPECT_EQ(facts.from, KnownFrom::kClusterFile);
  EXPECT_EQ(
      facts.text,
      "7 ranks on 4 hosts in 2 clusters: A (2 hosts, 2 ranks on each), B (2 hosts, 1 to 2 ranks on each), "
      "as the cluster file c.json says");
  ASSERT_EQ(levels_of(facts), (std::vector{Level::kHost, Level::kCluster, Level::kBetween}));
  EXPECT_EQ(facts.levels[0].bytes_per_second, 0) << "no file says it";
  EXPECT_EQ(facts.levels[1].bytes_per_second, 2e9);
  EXPECT_EQ(facts.levels[1].latency_seconds, 0.00002);
  EXPECT_EQ(facts.levels[2].bytes_per_second, 1e8);
  EXPECT_EQ(facts.levels[2].latency_seconds, 0.03);
  ASSERT_EQ(facts.clusters.size(), 2U);
  EXPECT_EQ(facts.clusters[1].ranks, 3U);
}

TEST(NetworkFacts, OfIslandsAreWhatWasMeasured) {
  Discovery discovery;
  discovery.islands.assign(kTwoByTwo.size(), "A");  // the locations have them already
  discovery.found = {{0, 1}, 2, 1e9, 1e7, 0.001, 0.02};
  for (const auto& [source, from, words] :
       {std::tuple(Discovery::Source::kMeasured, KnownFrom::kMeasured, "which the hosts measured"),
        std::tuple(Discovery::Source::kKept, KnownFrom::kKeptFile,
                   "which an earlier job measured, kept in f.json")}) {
    discovery.source = source;
    discovery.file = source == Discovery::Source::kKept ? "f.json" : "";
    const NetworkFacts facts = network_facts({.locations = kTwoByTwo, .discovery = discovery});
    EXPECT_EQ(facts.from, from);
    EXPECT_NE(facts.text.find("in 2 islands: A (2 hosts"), std::string::npos) << facts.text;
    EXPECT_NE(facts.text.find(words), std::string::npos) << facts.text;
    ASSERT_EQ(facts.levels.size(), 3U);
    EXPECT_EQ(facts.levels[1].bytes_per_second, 1e9);
    EXPECT_EQ(facts.levels[1].latency_seconds, 0.001);
    EXPECT_EQ(facts.levels[2].bytes_per_second, 1e7);
    EXPECT_EQ(facts.levels[2].latency_seconds, 0.02);
    EXPECT_FALSE(network_costs(facts)) << "hosts of unlike numbers of ranks";
    NetworkFacts alike = facts;
    for (ClusterFacts& one : alike.clusters) one.least_per_host = one.most_per_host = 2;
    const auto costs = network_costs(alike);
    ASSERT_TRUE(costs);
    EXPECT_EQ(costs->levels[0], NetworkCosts{}.levels[0]) << "not measured: as it typically is";
    EXPECT_EQ(costs->levels[1], (LinkCost{1'000'000, 1000}));
    EXPECT_EQ(costs->levels[2], (LinkCost{20'000'000, 100'000}));
    NetworkFacts less = alike;
    less.levels[2].latency_seconds = 0;
    EXPECT_FALSE(network_costs(less));
    less = alike;
    ++less.clusters[1].most_per_host;
    EXPECT_FALSE(network_costs(less));
  }
}

TEST(NetworkFacts, TellClusterFilesApartByWhatTheySay) {
  topology::ClusterFile one, other;
  one.hosts.resize(2);
  one.hosts[0].name = "x";
  one.hosts[1].name = "y";
  other.hosts = one.hosts;
  other.source = "another path";
  EXPECT_EQ(digest_of(one), digest_of(other));
  other.fabrics.push_back({"", "A", "B", 1e9, 0.001});
  EXPECT_NE(digest_of(one), digest_of(other));
}

TEST(NetworkFacts, SayWhyNothingWasMeasured) {
  const std::vector<RankLocation> locations = {{"x", ""}, {"y", ""}, {"z", ""}};
  Discovery discovery;
  const auto text = [&](Discovery::Source source, bool shared) {
    discovery.source = source;
    const NetworkFacts facts =
        network_facts({.locations = locations, .discovery = discovery, .shared_routing = shared});
    EXPECT_EQ(levels_of(facts), std::vector{Level::kCluster}) << facts.text;
    EXPECT_EQ(facts.levels[0].bytes_per_second, 0);
    EXPECT_NE(facts.text.find("equally far"), std::string::npos) << facts.text;
    return facts.text;
  };
  EXPECT_NE(text(Discovery::Source::kNone, false).find("TOMBOLO_DISCOVER=off"), std::string::npos);
  EXPECT_NE(text(Discovery::Source::kNone, true).find("TOMBOLO_ROUTING=shared"), std::string::npos);
  EXPECT_NE(text(Discovery::Source::kTooManyHosts, false).find("more than 128 hosts"), std::string::npos);
  EXPECT_NE(text(Discovery::Source::kTwoHosts, false).find("two hosts measure nothing"), std::string::npos);
}

}  // namespace
}  // namespace tombolo::collectives
