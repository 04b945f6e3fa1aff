#include "planner/choices.h"

#include <gtest/gtest.h>

#include "planner/plan/layer_split.h"
#include "planner/simulate/simulator.h"
#include "planner/testing/testing.h"

namespace tombolo::planner {
namespace {

/// A job's choices opened.
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
  const auto cluster = testing::make_cluster({{"a", 2}}, 1e6);
  open_choices({}, true, plan.job, options);
  plan.job.sequence_parallel = plan.job.overlap_parameters = false;
  plan.job.recompute_layers = 0;
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

TEST(Choices, ExchangesGoBesideProductsWhereDevicesSuitThat) {
  const auto overlaps = [&](Framework framework, const FixedChoices& fixed = {}) {
    Job job;
    job.model = testing::small_model(8);
    job.global_batch = 8;
    job.tensor = 0;
    job.framework = framework;
    PlanOptions options;
    open_choices(fixed, true, job, options);
    return options.overlap_by_devices;
  };
  EXPECT_TRUE(overlaps(Framework::kMegatron));
  EXPECT_TRUE(overlaps(Framework::kNeMo));
  EXPECT_FALSE(overlaps(Framework::kTorchTitan)) << "it would take compiled layers";
  EXPECT_FALSE(overlaps(Framework::kDeepSpeed));
  FixedChoices fixed;
  fixed.overlap_tensor = false;
  EXPECT_FALSE(overlaps(Framework::kMegatron, fixed));
  fixed.overlap_tensor.reset();
  fixed.sequence_parallel = false;
  EXPECT_FALSE(overlaps(Framework::kMegatron, fixed));
}

TEST(Choices, WholeLayersAreComputedAgainAsMemoryNeedsWhereTheFrameworkCan) {
  PlanOptions options;
  EXPECT_EQ(opened(Framework::kMegatron, {}, options).recompute_layers, Job::kAsNeeded);
  EXPECT_EQ(opened(Framework::kTorchTitan, {}, options).recompute_layers, 0);
  FixedChoices fixed;
  fixed.recompute_layers = 3;
  EXPECT_EQ(opened(Framework::kMegatron, fixed, options).recompute_layers, 3);
}

}  // namespace
}  // namespace tombolo::planner
