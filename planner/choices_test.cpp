#include "planner/choices.h"

#include <gtest/gtest.h>

#include "planner/plan/layer_split.h"
#include "planner/simulate/simulator.h"
#include "planner/testing/testing.h"

namespace tombolo::planner {
namespace {

Job opened(Framework framework, const FixedChoices& fixed, PlanOptions& options) {
  Job job;
  job.model = testing::small_model(8);
  job.global_batch = 8;
  job.framework = framework;
  open_choices(fixed, true, job, options);
  return job;
}

TEST(Choices, StagesWaitForWhatTheySendWhereTheFrameworkDoes) {
  PlanOptions options;
  for (const auto& [framework, sends] : {std::pair(Framework::kMegatron, StageSends::kTogether),
                                         {Framework::kNeMo, StageSends::kTogether},
                                         {Framework::kTorchTitan, StageSends::kTogether},
                                         {Framework::kDeepSpeed, StageSends::kInTurn},
                                         {Framework::kTombolo, StageSends::kBeside}}) {
    const Job job = opened(framework, {}, options);
    EXPECT_EQ(job.sends, sends) << framework_name(framework);
    EXPECT_EQ(job.blocks_sends(), sends != StageSends::kBeside);
  }
  FixedChoices gpipe;
  gpipe.schedule = Schedule::kGPipe;
  EXPECT_EQ(opened(Framework::kTorchTitan, gpipe, options).sends, StageSends::kBeside);
}

TEST(Choices, MegatronsStagesOfSeveralChunksSendBesideComputing) {
  PlanOptions options;
  Plan plan = testing::simple_plan(testing::small_model(4), {"a0", "a1"}, 2, 1, 4);
  plan.job.framework = Framework::kMegatron;
  open_choices({}, true, plan.job, options);
  plan.job.sequence_parallel = plan.job.overlap_parameters = false;
  const auto cluster = testing::make_cluster({{"a", 2}}, 1e6);
  const auto seconds = [&](StageSends sends) {
    Plan other = plan;
    other.job.sends = sends;
    return simulate(other, cluster).step_seconds;
  };
  EXPECT_GT(seconds(plan.job.sends), seconds(StageSends::kBeside));
  plan.job.schedule = Schedule::kInterleaved;
  plan.job.chunks = 2;
  plan.pipelines = equal_pipelines(plan.job, to_stages({1, 1, 1, 1}));
  EXPECT_EQ(seconds(plan.job.sends), seconds(StageSends::kBeside));
}

}  // namespace
}  // namespace tombolo::planner
