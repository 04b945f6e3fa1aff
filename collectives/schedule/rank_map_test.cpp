#include "collectives/schedule/rank_map.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <random>

#include "base/randomized_test.h"

namespace tombolo::collectives {
namespace {

TEST(RankMap, OrdersByClusterThenHostThenRank) {
  const std::vector<RankLocation> locations{{"a1", "A"}, {"b1", "B"}, {"a2", "A"}, {"b1", "B"}, {"a1", "A"}};
  const RankMap map = RankMap::make(4, locations);
  EXPECT_EQ(map.order, (std::vector<int>{0, 4, 2, 1, 3}));
  EXPECT_EQ(map.clusters, (std::vector<std::vector<int>>{{0, 4, 2}, {1, 3}}));
  EXPECT_EQ(map.position, 1);
  EXPECT_EQ(map.cluster, 0);
  EXPECT_EQ(map.index, 1);
}

TEST(RankMap, SaysHowManyRanksTheHostsOfAClusterHave) {
  const auto of = [](const std::vector<RankLocation>& locations) {
    return RankMap::make(0, locations).hosts;
  };
  using Counts = std::vector<std::vector<std::size_t>>;
  EXPECT_EQ(of({{"a", "A"}, {"a", "A"}, {"b", "A"}, {"b", "A"}, {"c", "B"}}), (Counts{{2, 2}, {1}}));
  EXPECT_EQ(of({{"b", "A"}, {"a", "A"}, {"b", "A"}}), (Counts{{2, 1}})) << "unlike, in the order of ranks";
  EXPECT_EQ(of({{"a", "A"}, {"a", "B"}, {"a", "A"}}), (Counts{{2}, {1}})) << "two hosts of one name";
}

TEST(RankMap, HostsOfOneNameInTwoClustersAreTwo) {
  const std::vector<RankLocation> locations{{"node0", "A"}, {"node0", "B"}, {"node0", "A"}, {"node0", "B"}};
  const RankMap map = RankMap::make(1, locations);
  EXPECT_EQ(map.order, (std::vector<int>{0, 2, 1, 3}));
  EXPECT_EQ(map.clusters, (std::vector<std::vector<int>>{{0, 2}, {1, 3}}));
  EXPECT_EQ(map.cluster, 1);
  EXPECT_EQ(map.index, 0);
}

TEST(RankMap, OfOneRankAlone) {
  const RankMap map = RankMap::make(0, {{"a1", ""}});
  EXPECT_EQ(map.order, std::vector<int>{0});
  EXPECT_EQ(map.clusters, std::vector<std::vector<int>>{{0}});
  EXPECT_EQ(map.at(-5), 0);
}

TEST(RankMap, CountsAroundTheRingInBothDirections) {
  const RankMap map = RankMap::make(0, {{"a", "A"}, {"b", "B"}, {"c", "A"}});
  EXPECT_EQ(map.order, (std::vector<int>{0, 2, 1}));
  for (int where = -6; where <= 6; ++where)
    EXPECT_EQ(map.at(where), map.order[static_cast<std::size_t>((where + 9) % 3)]) << where;
}

TEST(RankMap, IsOneArrangementSeenFromEveryRank) {
  std::mt19937 random(test_seed());
  for (int round = 0; round < test_rounds(300); ++round) {
    std::vector<RankLocation> locations(1 + random() % 12);
    for (RankLocation& one : locations) {
      one.host = std::string(1, static_cast<char>('a' + random() % 4));
      one.cluster = std::string(random() % 2, static_cast<char>('A' + random() % 3));  // some have none
    }
    const int size = static_cast<int>(locations.size());
    const RankMap first = RankMap::make(0, locations);
    std::vector<int> sorted = first.order, joined;
    std::sort(sorted.begin(), sorted.end());
    for (int rank = 0; rank < size; ++rank) ASSERT_EQ(sorted[static_cast<std::size_t>(rank)], rank);
    for (const auto& cluster : first.clusters) joined.insert(joined.end(), cluster.begin(), cluster.end());
    ASSERT_EQ(joined, first.order);
    // Ranks of one cluster, and of one host within it, lie side by side.
    std::vector<std::string> closed;
    for (int where = 0; where < size; ++where) {
      const RankLocation& here = locations[static_cast<std::size_t>(first.at(where))];
      const std::string name = here.cluster + "/" + here.host;
      if (!closed.empty() && closed.back() == name) continue;
      ASSERT_EQ(std::find(closed.begin(), closed.end(), name), closed.end()) << name << " is cut in two";
      closed.push_back(name);
    }
    for (int rank = 0; rank < size; ++rank) {
      const RankMap map = RankMap::make(rank, locations);
      ASSERT_EQ(map.rank, rank);
      ASSERT_EQ(map.order, first.order);
      ASSERT_EQ(map.clusters, first.clusters);
      ASSERT_EQ(map.at(map.position), rank);
      ASSERT_EQ(map.clusters[static_cast<std::size_t>(map.cluster)][static_cast<std::size_t>(map.index)],
                rank);
      ASSERT_EQ(
          locations[static_cast<std::size_t>(map.clusters[static_cast<std::size_t>(map.cluster)][0])].cluster,
          locations[static_cast<std::size_t>(rank)].cluster);
    }
  }
}

}  // namespace
}  // namespace tombolo::collectives
