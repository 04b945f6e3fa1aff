#include "planner/plan/model_chunks.h"

#include <gtest/gtest.h>

#include "planner/testing/testing.h"

namespace tombolo::planner {
namespace {

using namespace testing;

TEST(ModelChunks, KeepTheLayersOfEachStage) {
  Plan plan = simple_plan(small_model(12), {"a0", "a1"}, 2, 1, 4);
  plan.pipelines[0].stages = {{0, 5, 1}, {5, 7, 1}};
  const InChunks made = in_chunks(plan, 3);
  ASSERT_TRUE(made.plan);
  EXPECT_EQ(made.plan->job.schedule, Schedule::kInterleaved);
  EXPECT_EQ(made.plan->job.chunks, 3);
  EXPECT_EQ(made.plan->pipelines[0].stages,
            (std::vector<Stage>{{0, 2, 1}, {2, 3, 1}, {5, 2, 1}, {7, 2, 1}, {9, 1, 1}, {10, 2, 1}}));
  for (int slot = 0; slot < 2; ++slot) EXPECT_EQ(made.plan->layers_at(slot), plan.layers_at(slot));
  EXPECT_EQ(made.plan->ranks.size(), plan.ranks.size());
}

TEST(ModelChunks, SayWhyThereAreNone) {
  Plan plan = simple_plan(small_model(12), {"a0", "a1"}, 2, 1, 4);
  plan.pipelines[0].stages = {{0, 2, 1}, {2, 10, 1}};
  EXPECT_NE(in_chunks(plan, 3).why_not.find("fewer layers"), std::string_view::npos);
  EXPECT_TRUE(in_chunks(plan, 2).plan);
  plan.pipelines[0].rows = 3 * plan.pipelines[0].micro_batch;
  EXPECT_FALSE(in_chunks(plan, 2).plan);
  EXPECT_NE(in_chunks(plan, 2).why_not.find("multiple of the stages"), std::string_view::npos);
}

}  // namespace
}  // namespace tombolo::planner
