#include "net_plugin/tuner/costs.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <numeric>
#include <random>

#include "base/randomized_test.h"

namespace tombolo::net_plugin {
namespace {

TEST(TunerCosts, NodesAreSharedOutByTheClustersHosts) {
  EXPECT_EQ(nodes_by_cluster({2, 2}, 4), (std::vector<int>{2, 2}));
  EXPECT_EQ(nodes_by_cluster({6, 2}, 7), (std::vector<int>{6, 1}));
  EXPECT_EQ(nodes_by_cluster({99, 1}, 2), (std::vector<int>{1, 1}));
  EXPECT_EQ(nodes_by_cluster({1, 99}, 2), (std::vector<int>{1, 1}));
  EXPECT_EQ(nodes_by_cluster({2, 1, 1}, 4), (std::vector<int>{2, 1, 1}));
}

TEST(TunerCosts, SharedOutNodesAddUpAndLeaveBothEndsSome) {
  std::mt19937 random(test_seed());
  for (int round = 0; round < test_rounds(600); ++round) {
    std::vector<int> hosts(2 + random() % 5);
    for (int& count : hosts) count = static_cast<int>(1 + random() % 300);
    const int all = std::accumulate(hosts.begin(), hosts.end(), 0);
    const int nodes = 2 + static_cast<int>(random() % static_cast<unsigned>(all - 1));
    const std::vector<int> parts = nodes_by_cluster(hosts, nodes);
    ASSERT_EQ(std::accumulate(parts.begin(), parts.end(), 0), nodes);
    ASSERT_GE(*std::ranges::min_element(parts), 0);
    ASSERT_GE(parts.front(), 1);
    ASSERT_GE(parts.back(), 1);
  }
}

/// The chain of a piece through the ring, walked hop by hop from every rank; the one with most crossings.
std::array<int, 3> walk_ring(const std::vector<int>& nodes, int per_node, int hops) {
  std::vector<std::pair<int, int>> ranks;  // cluster and node
  int node = 0;
  for (int cluster = 0; cluster < static_cast<int>(nodes.size()); ++cluster) {
    for (int i = 0; i < nodes[static_cast<std::size_t>(cluster)]; ++i, ++node)
      ranks.insert(ranks.end(), static_cast<std::size_t>(per_node), {cluster, node});
  }
  std::array<int, 3> most{-1, -1, -1};
  for (std::size_t start = 0; start < ranks.size(); ++start) {
    std::array<int, 3> steps{};
    for (int hop = 0; hop < hops; ++hop) {
      const auto& from = ranks[(start + static_cast<std::size_t>(hop)) % ranks.size()];
      const auto& to = ranks[(start + static_cast<std::size_t>(hop) + 1) % ranks.size()];
      ++steps[from.first != to.first ? 0 : from.second != to.second ? 1 : 2];
    }
    most = std::max(most, steps);
  }
  return most;
}

TEST(TunerCosts, ARingsLongestChainIsTheOneWalkedHopByHop) {
  std::mt19937 random(test_seed());
  for (int round = 0; round < test_rounds(300); ++round) {
    std::vector<int> nodes(2 + random() % 3);
    for (int& count : nodes) count = static_cast<int>(1 + random() % 6);
    const int per_node = static_cast<int>(2 + random() % 4);
    const int ranks = per_node * std::accumulate(nodes.begin(), nodes.end(), 0);
    const PatternLoad load = ring_load(Collective::kAllGather, nodes, static_cast<std::size_t>(ranks));
    const auto walked = walk_ring(nodes, per_node, ranks - 1);
    EXPECT_EQ((std::array{load.far_steps, load.near_steps, load.local_steps}), walked);
    EXPECT_DOUBLE_EQ(load.host_bytes, (ranks - 1.0) / ranks);
    const PatternLoad reduced = ring_load(Collective::kAllReduce, nodes, static_cast<std::size_t>(ranks));
    EXPECT_DOUBLE_EQ(reduced.shared_bytes, 2 * (ranks - 1.0) / ranks);
    EXPECT_EQ(reduced.far_steps + reduced.near_steps + reduced.local_steps, 2 * (ranks - 1));
  }
}

// Drawn by hand. Four nodes, two in each cluster: the first tree is 0 - 2 - {1, 3}, its mirror 3 - 1 - {2,
// 0}.
TEST(TunerCosts, TheTreesOfFourNodes) {
  const PatternLoad load = tree_load({2, 2}, 4);
  EXPECT_DOUBLE_EQ(load.host_bytes, 1.5) << "of node 1: edges to 2 and 3, and to 2 in the first tree";
  EXPECT_DOUBLE_EQ(load.shared_bytes, 2.0) << "0-2, 1-2; 3-1, 2-1";
  EXPECT_DOUBLE_EQ(load.inside_bytes, 0.5);
  EXPECT_EQ(load.far_steps, 4) << "1 - 2 - 0 and back";
  EXPECT_EQ(load.near_steps, 0);
  EXPECT_EQ(load.local_steps, 0);
}

// Eight nodes: 0 - 4 - {2 - {1, 3}, 6 - {5, 7}}, and its mirror.
TEST(TunerCosts, TheTreesOfEightNodes) {
  const PatternLoad load = tree_load({4, 4}, 64);
  EXPECT_DOUBLE_EQ(load.shared_bytes, 2.0) << "0-4, 2-4; 7-3, 5-3";
  EXPECT_DOUBLE_EQ(load.host_bytes, 1.0) << "of nodes 3 and 4";
  EXPECT_EQ(load.far_steps, 4) << "1 - 2 - 4 - 0 and back";
  EXPECT_EQ(load.near_steps, 2);
  EXPECT_EQ(load.local_steps, 14);
}

// Three nodes: 0 - 2 - 1, and shifted by one: 1 - 0 - 2.
TEST(TunerCosts, TheTreesOfThreeNodes) {
  const PatternLoad load = tree_load({2, 1}, 3);
  EXPECT_DOUBLE_EQ(load.shared_bytes, 1.5) << "0-2, 2-1; 0-2";
  EXPECT_DOUBLE_EQ(load.host_bytes, 1.5) << "of node 2";
  EXPECT_DOUBLE_EQ(load.inside_bytes, 0.5);
  EXPECT_EQ(load.far_steps, 4) << "1 - 2 - 0 and back";
}

Span two_clusters() {
  Span span;
  span.hosts = {4, 4};
  span.inside = {1e10, 5e-6};
  span.between = {1e8, 0.01};
  return span;
}

TEST(TunerCosts, BytesOverTheBusiestLinkAndLatenciesOfTheLongestChain) {
  const CostModel model(two_clusters(), 8, 8);
  const auto empty = model.seconds(Collective::kAllReduce, Pattern::kTree, Protocol::kLl, 0, 1);
  EXPECT_NEAR(empty.value(), 4 * 0.010003 + 2 * 8e-6, 1e-12);
  const auto full = model.seconds(Collective::kAllReduce, Pattern::kTree, Protocol::kSimple, 100'000'000, 1);
  EXPECT_NEAR(full.value(), 1.0 + 4 * 0.010012 + 2 * 17e-6, 1e-9) << "one host's link takes 1e8 bytes in 1 s";
  EXPECT_NEAR(model.seconds(Collective::kAllReduce, Pattern::kTree, Protocol::kLl, 0, 3).value(), 3 * *empty,
              1e-12);
  EXPECT_FALSE(model.seconds(Collective::kAllGather, Pattern::kTree, Protocol::kLl, 8, 1));
}

TEST(TunerCosts, LlSendsTwiceTheBytesAndLl128AFifteenthMore) {
  const CostModel model(two_clusters(), 8, 8);
  const auto bandwidth = [&](Protocol protocol) {
    return *model.seconds(Collective::kAllGather, Pattern::kRing, protocol, 1'000'000'000, 1) -
           *model.seconds(Collective::kAllGather, Pattern::kRing, protocol, 0, 1);
  };
  EXPECT_NEAR(bandwidth(Protocol::kLl) / bandwidth(Protocol::kSimple), 2.0, 1e-9);
  EXPECT_NEAR(bandwidth(Protocol::kLl128) / bandwidth(Protocol::kSimple), 16.0 / 15.0, 1e-9);
}

TEST(TunerCosts, AsManyChannelsAsTheRoundTripTheRateAndTheNicsNeed) {
  const auto channels = [](const Span& span) { return CostModel(span, 8, 8).filling_channels(); };
  Span span = two_clusters();  // 2e6 bytes under way, which one channel's buffer holds
  EXPECT_EQ(channels(span).round_trip, 1);
  EXPECT_EQ(channels(span).rate, 1);
  EXPECT_EQ(channels(span).nics, 1);
  EXPECT_EQ(channels(span).all, 2);
  span.between = {1.25e9, 0.01};  // 25e6 bytes under way
  EXPECT_EQ(channels(span).round_trip, 6);
  EXPECT_EQ(channels(span).rate, 2);
  EXPECT_EQ(channels(span).all, 6);
  span.nics = 4;
  EXPECT_EQ(channels(span).round_trip, 24) << "each NIC attains that";
  EXPECT_EQ(channels(span).rate, 5);
  EXPECT_EQ(channels(span).all, 24);
  span.nics = 5;
  span.shared_bytes_per_second = 1.25e9;
  EXPECT_EQ(channels(span).all, 10) << "as many for each NIC";
  span.nics = 4;
  span.shared_bytes_per_second = 1.25e8;
  EXPECT_EQ(channels(span).round_trip, 1);
  EXPECT_EQ(channels(span).all, 4);
  span.between = {1e300, 1e6};
  span.shared_bytes_per_second = 0;
  EXPECT_EQ(channels(span).all, 32) << "bounded";
}

TEST(TunerCosts, AChunkFillsTheLinkForARoundTrip) {
  Span span = two_clusters();  // 1e8 B/s for 20 ms: 2e6 bytes under way, 250e3 on each of eight steps
  EXPECT_EQ(CostModel(span, 8, 8).filling_chunk(1), std::size_t{4} * 65536);
  EXPECT_EQ(CostModel(span, 8, 8).filling_chunk(4), std::size_t{65536});
  EXPECT_EQ(CostModel(span, 8, 8).filling_chunk(0), std::size_t{4} * 65536);
  span.between = {1e300, 1e6};
  EXPECT_EQ(CostModel(span, 8, 8).filling_chunk(1), ((std::size_t{1} << 14) + 1) * 65536) << "bounded";
}

}  // namespace
}  // namespace tombolo::net_plugin
