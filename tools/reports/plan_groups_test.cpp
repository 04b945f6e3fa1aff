#include "tools/reports/plan_groups.h"

#include <gtest/gtest.h>

#include "planner/testing/testing.h"

namespace tombolo::tools {
namespace {

using planner::testing::make_cluster;
using planner::testing::simple_plan;
using planner::testing::small_model;
using topology::NicKind;

TEST(PlanGroups, ReplicasInTheSameClustersAreAlike) {
  const auto cluster = make_cluster({{"a", 2}, {"b", 2}}, 1e7);
  const auto groups =
      replica_groups(simple_plan(small_model(4), {"a0", "b0", "a1", "a0", "b1", "a1"}, 2, 3, 2), cluster);
  // By replica: a0 and a0, b0 and b1, a1 and a1.
  ASSERT_EQ(groups.size(), 2U);
  EXPECT_EQ(groups[0].name(), "0, 2");
  EXPECT_EQ(groups[1].name(), "1");
}

TEST(PlanGroups, ReplicasWithOtherRowsAreNotAlike) {
  const auto cluster = make_cluster({{"a", 2}}, 1e7);
  auto plan = simple_plan(small_model(4), {"a0", "a1"}, 1, 2, 2);
  EXPECT_EQ(replica_groups(plan, cluster).size(), 1U);
  plan.pipelines[1].rows += 2;
  EXPECT_EQ(replica_groups(plan, cluster).size(), 2U);
}

TEST(PlanGroups, ManyReplicasAreCounted) {
  EXPECT_EQ((ReplicaGroup{{0, 1, 2, 3}}.name()), "0-3");
  EXPECT_EQ((ReplicaGroup{{0, 2, 4, 6, 8}}.name()), "0, 2, 4 and 2 others");
}

TEST(PlanGroups, NeighbouringStagesShareARowWhereThereAreMany) {
  std::vector<std::string> many;
  for (int rank = 0; rank < 40; ++rank) many.push_back(rank < 20 ? "a0" : "b0");
  const auto cluster = make_cluster({{"a", 1, 20}, {"b", 1, 20}}, 1e7);
  auto plan = simple_plan(small_model(80), many, 40, 1, 2);
  plan.pipelines[0].stages[30] = {60, 3, 1};
  plan.pipelines[0].stages[31] = {63, 1, 1};
  const auto rows = stage_rows(plan, cluster, replica_groups(plan, cluster));
  ASSERT_EQ(rows.size(), 5U);
  EXPECT_EQ(rows[0].stages() + " of " + rows[0].layers, "0-19 of 2 each");
  EXPECT_EQ(rows[1].stages(), "20-29") << "another cluster";
  EXPECT_EQ(rows[2].stages() + " of " + rows[2].layers, "30 of 3 (60-62)");
  EXPECT_EQ(rows[4].ranks.size(), 8U);
  plan = simple_plan(small_model(8), {"a0", "a0", "b0", "b0"}, 4, 1, 2);
  EXPECT_EQ(stage_rows(plan, cluster, replica_groups(plan, cluster)).size(), 4U);
}

TEST(PlanGroups, RanksOfAHostAreARunAndManyHostsACount) {
  const auto plan = simple_plan(small_model(4), {"a0", "a0", "a0", "a1", "a0", "a2", "a3"}, 1, 7, 2);
  EXPECT_EQ(ranks_text(plan, {0, 1, 2, 3}), "0-2 on a0, 3 on a1");
  EXPECT_EQ(ranks_text(plan, {0, 1, 2, 3, 4, 5, 6}), "7 on 4 hosts, a0 to a3");
}

TEST(PlanGroups, LinksAreSummedByClusterAndKindAndTheBusiestComeFirst) {
  const auto cluster =
      make_cluster({{"a", 2, 1, NicKind::kInfiniBand, 1e9}, {"b", 2, 1, NicKind::kRoce, 1e9}}, 1e7);
  planner::Simulation simulation;
  simulation.links = {{"a0", "fast", "a1", "fast", 1e9},
                      {"a0", "eth", "b0", "eth", 3e7},
                      {"a1", "eth", "b1", "eth", 5e7},
                      {"b0", "eth", "a0", "eth", 1e7}};
  const auto groups = link_groups(cluster, simulation);
  ASSERT_EQ(groups.size(), 3U);
  EXPECT_EQ(groups[0].from + groups[0].to, "ab");
  EXPECT_EQ(groups[0].kind, NicKind::kTcp);
  EXPECT_EQ(groups[0].links, 2);
  EXPECT_DOUBLE_EQ(groups[0].bytes, 8e7);
  EXPECT_DOUBLE_EQ(groups[0].most_bytes, 5e7);
  EXPECT_DOUBLE_EQ(groups[0].least_seconds, 5);
  EXPECT_EQ(groups[1].kind, NicKind::kInfiniBand);
  EXPECT_DOUBLE_EQ(groups[2].least_seconds, 1);
}

}  // namespace
}  // namespace tombolo::tools
