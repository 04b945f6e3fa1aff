#include "planner/plan/plan.h"

#include <gtest/gtest.h>

#include "base/error.h"
#include "planner/testing/testing.h"

namespace tombolo::planner {
namespace {

using testing::simple_plan;
using testing::small_model;

TEST(Plan, WithModelChunksASlotHoldsOneVirtualStageOfEach) {
  Plan plan = simple_plan(small_model(10), {"a0", "a1"}, 2, 1, 4);
  plan.job.chunks = 2;
  plan.pipelines = equal_pipelines(plan.job, to_stages({1, 2, 3, 4}));
  EXPECT_EQ(plan.pipeline_size(), 2);
  EXPECT_EQ(plan.layers_at(0), 1 + 3);
  EXPECT_EQ(plan.layers_at(1), 2 + 4);
  EXPECT_EQ(plan.stage(1).layers, 2) << "the first chunk's";
}

TEST(Plan, RanksBySlotIsTheInverseOfWhatEachRankTakes) {
  Plan plan = simple_plan(small_model(4), {"a0", "a1", "a2", "a3"}, 2, 2, 4);
  std::swap(plan.ranks[0], plan.ranks[3]);
  const auto slots = plan.ranks_by_slot();
  for (int replica = 0; replica < 2; ++replica)
    for (int stage = 0; stage < 2; ++stage) {
      const auto& ranks = slots[static_cast<std::size_t>(replica)][static_cast<std::size_t>(stage)];
      ASSERT_EQ(ranks.size(), 1u);
      EXPECT_EQ(ranks[0], plan.rank_at(stage, replica));
    }
  EXPECT_EQ(plan.rank_at(1, 1), 0);
  EXPECT_THROW(plan.rank_at(2, 0), Error);
}

TEST(Plan, KnowsWhetherReplicasAreAlike) {
  Plan plan = simple_plan(small_model(4), {"a0", "a1", "a2"}, 1, 3, 4);
  EXPECT_TRUE(plan.uniform());
  EXPECT_EQ(plan.shape(), "1 stage x 3 replicas");
  plan.pipelines[1].stages = {{0, 2}, {2, 2}};
  EXPECT_FALSE(plan.uniform());
  EXPECT_EQ(plan.shape(), "3 replicas of 1, 2, 1 stages");
  plan = simple_plan(small_model(4), {"a0", "a1"}, 2, 1, 4);
  plan.pipelines[0].stages[1].tensor = 2;
  EXPECT_FALSE(plan.uniform()) << "its stages differ in their tensor degree";
}

}  // namespace
}  // namespace tombolo::planner
