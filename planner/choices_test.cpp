#include "planner/choices.h"

#include <gtest/gtest.h>

#include "planner/plan/layer_split.h"
#include "planner/simulate/simulator.h"
#include "planner/testing/testing.h"

namespace tombolo::planner {
namespace {

/// A job's choices opened, on hosts without GPUs where no others are named.
Job opened(Framework framework, const FixedChoices& fixed, PlanOptions& options,
           const topology::ClusterFile& cluster = testing::make_cluster({{"a", 2}}, 1e9)) {
  Job job;
  job.model = testing::small_model(8);
  job.global_batch = 8;
  job.framework = framework;
  open_choices(fixed, cluster, true, job, options);
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
  open_choices({}, cluster, true, plan.job, options);
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

/// GPUs of a name that is in the library, joined by so many bytes per second in their hosts.
topology::ClusterFile gpus(const std::string& name, double rate) {
  auto cluster = testing::make_cluster({{"a", 2, 4}}, 1e9);
  for (auto& host : cluster.hosts) {
    host.device_bytes_per_second = rate;
    for (auto& device : host.devices) {
      device.name = name;
      device.kind = topology::DeviceKind::kGpu;
    }
  }
  return cluster;
}

TEST(Choices, ExchangesGoBesideProductsOnGpusThatCanWithoutFurtherAdo) {
  EXPECT_TRUE(suits_tensor_overlap(gpus("H100-SXM5-80GB", 3.6e11)));
  EXPECT_FALSE(suits_tensor_overlap(gpus("H100-PCIE-80GB", 6e10))) << "no NVLink";
  EXPECT_FALSE(suits_tensor_overlap(gpus("A100-SXM4-80GB", 2.4e11))) << "no multicast";
  EXPECT_FALSE(suits_tensor_overlap(gpus("H100-NVL-94GB", 2.4e11))) << "bridges join two";
  EXPECT_FALSE(suits_tensor_overlap(gpus("MI300X", 3.6e11))) << "no NVLink";
  EXPECT_FALSE(suits_tensor_overlap(gpus("nobody's", 3.6e11)));
  const auto cluster = gpus("H100-SXM5-80GB", 3.6e11);
  PlanOptions options;
  const auto overlaps = [&](Framework framework, const FixedChoices& fixed = {}) {
    Job job;
    job.model = testing::small_model(8);
    job.global_batch = 8;
    job.tensor = 0;
    job.framework = framework;
    open_choices(fixed, cluster, true, job, options);
    return job.overlap_tensor;
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
