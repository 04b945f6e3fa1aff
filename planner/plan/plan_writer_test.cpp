#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <random>

#include "base/randomized_test.h"
#include "planner/plan/plan.h"
#include "planner/testing/testing.h"

namespace tombolo::planner {
namespace {

using testing::simple_plan;
using testing::small_model;

Plan written_and_read(const Plan& plan) {
  return Plan::parse(JsonDocument::parse(plan.to_json().dump(), "plan.json"));
}

TEST(PlanWriter, WhatIsUsualIsNotWritten) {
  const Json json = simple_plan(small_model(8), {"a0", "a1"}, 2, 1, 4).to_json();
  for (const char* field :
       {"tensor", "schedule", "chunks", "recompute", "sequence_parallel", "sharding", "overlap_gradients",
        "sends", "fp32_gradients", "framework", "software", "device", "moments"})
    EXPECT_FALSE(json.at("job").contains(field)) << field;
  EXPECT_FALSE(json.contains("pipelines")) << "replicas are alike";
  EXPECT_FALSE(json.contains("left_out"));
  EXPECT_FALSE(json.at("ranks")[0].contains("tensor"));
}

TEST(PlanWriter, TheBundledTrainersDeviceAndMomentsComeBack) {
  Plan plan = simple_plan(small_model(8), {"a0", "a1"}, 2, 1, 4);
  plan.job.device = TrainerDevice::kCuda;
  plan.job.model.bytes_per_value = 2;
  plan.job.moment_bytes = 2;
  plan.job.recompute = Recompute::kFull;
  const Plan again = written_and_read(plan);
  EXPECT_EQ(again.to_json(), plan.to_json());
  EXPECT_TRUE(again.job.on_cuda());
  EXPECT_EQ(again.job.moment_bytes, 2);
  EXPECT_EQ(again.job.recompute, Recompute::kFull);
}

TEST(PlanWriter, EveryChoiceOfTheJobComesBack) {
  std::mt19937 random(test_seed());
  const auto coin = [&] { return std::uniform_int_distribution(0, 1)(random) == 1; };
  for (int round = 0; round < test_rounds(100); ++round) {
    Plan plan = simple_plan(small_model(8), {"a0", "a0", "a1", "a1"}, 2, 1, 4);
    Job& job = plan.job;
    job.framework = Framework::kMegatron;
    job.tensor = 2;
    job.chunks = coin() ? 2 : 1;
    job.schedule = job.chunks > 1 ? Schedule::kInterleaved
                   : coin()       ? Schedule::kGPipe
                                  : Schedule::kZeroBubbleH1;
    job.recompute = coin() ? Recompute::kFull : Recompute::kSelective;
    job.sequence_parallel = coin();
    job.sharding = coin() ? Sharding::kOptimizer : Sharding::kNone;
    job.overlap_gradients = coin();
    job.overlap_parameters = coin();
    if (job.chunks == 1 && coin()) job.sends = coin() ? StageSends::kInTurn : StageSends::kTogether;
    job.fp32_gradients = coin();
    job.fused_attention = coin();
    std::vector<Stage> stages(static_cast<std::size_t>(2 * job.chunks), {0, 8 / (2 * job.chunks), 2});
    for (std::size_t i = 1; i < stages.size(); ++i)
      stages[i].first_layer = stages[i - 1].first_layer + stages[i - 1].layers;
    plan.pipelines = equal_pipelines(job, stages);
    for (int rank = 0; rank < 4; ++rank)
      plan.ranks[static_cast<std::size_t>(rank)] = {rank < 2 ? "a0" : "a1", rank % 2, rank / 2, 0, rank % 2};
    const Plan again = written_and_read(plan);
    EXPECT_EQ(again.to_json(), plan.to_json());
    EXPECT_EQ(again.pipelines, plan.pipelines);
    EXPECT_EQ(again.job.schedule, job.schedule);
    EXPECT_EQ(again.job.saving(), job.saving());
    EXPECT_EQ(again.job.sequence_parallel, job.sequence_parallel);
    EXPECT_EQ(again.job.overlap_gradients, job.overlap_gradients);
    EXPECT_EQ(again.job.overlap_parameters, job.overlap_parameters);
    EXPECT_EQ(again.job.sends, job.sends);
    EXPECT_EQ(again.job.fp32_gradients, job.fp32_gradients);
    EXPECT_EQ(again.job.fused_attention, job.fused_attention);
    EXPECT_EQ(again.ranks[3].tensor, 1);
  }
}

TEST(PlanWriter, TheChoiceComesBack) {
  Plan plan = simple_plan(small_model(8), {"a0", "a1"}, 2, 1, 4);
  EXPECT_FALSE(plan.to_json().contains("choice"));
  plan.choice = Choice{0.03, 0, 0, 0, "", {{"pipeline 1, data 2", 0.5, "less simple"}}};
  EXPECT_EQ(written_and_read(plan).choice, plan.choice);
  plan.choice = Choice{0.03, 8, 7, 0.04, "H100 20 % slower", {}};
  EXPECT_EQ(written_and_read(plan).choice, plan.choice);
}

TEST(PlanWriter, WhatIsExpectedOfTheEngineComesBack) {
  Plan plan = simple_plan(small_model(8), {"a0", "a1"}, 1, 2, 4);
  EXPECT_FALSE(plan.to_json()["prediction"].contains("reductions"));
  plan.prediction.reductions = {{{0, 1}, "two-level", 524288, 3, 1000, 0.25, "because"},
                                {{0, 1}, "doubling", 0, 1, 40, 0.001, "it is short"}};
  EXPECT_EQ(written_and_read(plan).prediction.reductions, plan.prediction.reductions);
  EXPECT_FALSE(plan.to_json()["prediction"]["reductions"][1].contains("piece_bytes"));
  plan.prediction.reductions[1].ranks[1] = 2;
  EXPECT_THROW(written_and_read(plan), Error) << "there is no rank 2";
}

TEST(PlanWriter, ReplicasThatDifferAreWrittenEach) {
  Plan plan = simple_plan(small_model(4), {"a0", "a1", "a2"}, 1, 1, 4);
  plan.job.framework = Framework::kMegatron;
  plan.job.data = 2;
  plan.pipelines = {{{{0, 1}, {1, 3}}, 3, 1}, {{{0, 4}}, 1, 1}};
  plan.ranks = {{"a0", 0, 0, 0}, {"a1", 0, 1, 0}, {"a2", 0, 0, 1}};
  EXPECT_FALSE(plan.to_json().contains("stages"));
  EXPECT_EQ(written_and_read(plan).pipelines, plan.pipelines);
}

}  // namespace
}  // namespace tombolo::planner
