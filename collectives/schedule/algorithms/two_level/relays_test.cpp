// That calls of few bytes cross to other clusters in few messages.
#include "collectives/schedule/algorithms/two_level/relays.h"

#include <gtest/gtest.h>

#include <map>
#include <string>
#include <utility>

#include "collectives/schedule/algorithm.h"
#include "collectives/testing/algorithm_cases.h"

namespace tombolo::collectives {
namespace {

using namespace test;

TEST(RelaysOfClusters, EachRankHearsFromEachOtherClusterOnce) {
  for (const std::string_view clusters : kClusters) {
    const auto locations = locations_of(clusters);
    const int n = static_cast<int>(clusters.size());
    std::map<std::pair<int, int>, int> sent, heard;  // by sender and receiver
    for (int rank = 0; rank < n; ++rank) {
      const RankMap map = RankMap::make(rank, locations);
      const Relays relays(map);
      for (const int to : relays.served_by(relays.index())) ++sent[{rank, to}];
      EXPECT_EQ(relays.heard().size(), map.clusters.size() - 1);
      for (const Relays::Other& other : relays.heard()) {
        EXPECT_EQ(clusters[static_cast<std::size_t>(other.relay)],
                  clusters[static_cast<std::size_t>(map.clusters[other.cluster][0])]);
        ++heard[{other.relay, rank}];
      }
    }
    EXPECT_EQ(sent, heard) << clusters;
  }
}

/// Messages that a call sends to other clusters, by all ranks together.
int crossings(Collective collective, std::string_view clusters, std::size_t count) {
  const auto locations = locations_of(clusters);
  Tuning tuning;
  Problem problem;
  problem.count = count;
  int messages = 0;
  for (int rank = 0; rank < static_cast<int>(clusters.size()); ++rank) {
    const RankMap map = RankMap::make(rank, locations);
    const Algorithm& algorithm = choose_algorithm(collective, kAutomatic, map, problem, tuning);
    for (const Step& step : algorithm.build(map, problem, tuning, false).steps)
      if (step.kind == StepKind::kSend &&
          clusters[static_cast<std::size_t>(step.peer)] != clusters[static_cast<std::size_t>(rank)])
        ++messages;
  }
  return messages;
}

TEST(RelaysOfClusters, CallsOfFewBytesCrossOncePerRankOrCluster) {
  for (const auto& [clusters, per_rank, per_cluster] :
       {std::tuple{"AABB", 4, 1}, {"ABAB", 4, 1}, {"AAABB", 5, 1}, {"AABBCC", 12, 2}, {"ABABABAB", 8, 1}}) {
    for (const Collective one : {Collective::kAllReduce, Collective::kReduceScatter, Collective::kAllGather,
                                 Collective::kAllToAll, Collective::kBarrier})
      EXPECT_EQ(crossings(one, clusters, 4), per_rank) << collective_name(one) << " " << clusters;
    for (const Collective one : {Collective::kBroadcast, Collective::kReduce})
      EXPECT_EQ(crossings(one, clusters, 4), per_cluster) << collective_name(one) << " " << clusters;
  }
}

// The one rank of A is the relay of all of B.
TEST(RelaysOfClusters, AContributionIsMultipliedOnceForAllThatGetIt) {
  const RankMap map = RankMap::make(0, locations_of("ABBBB"));
  Problem problem;
  problem.count = 10;
  problem.premultiplied = true;
  std::size_t products = 0;
  const Algorithm& algorithm = choose_algorithm(Collective::kAllReduce, kAutomatic, map, problem, {});
  for (const Step& step : algorithm.build(map, problem, {}, false).steps)
    if (step.premultiplied != Premultiplied::kNone) ++products;
  EXPECT_EQ(algorithm.name, "doubling");
  EXPECT_EQ(products, 1U);
}

}  // namespace
}  // namespace tombolo::collectives
