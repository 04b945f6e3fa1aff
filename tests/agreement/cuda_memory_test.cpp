// The planner counts, for a stage on a GPU, the bytes that the trainer plans to allocate there. The planner
// does not know the trainer, so nothing but this test keeps them equal.
#include <gtest/gtest.h>

#include <random>

#include "base/format.h"
#include "base/randomized_test.h"
#include "planner/cost/memory.h"
#include "trainer/cuda/memory/stage_buffers.h"
#include "trainer/cuda/testing/pretended_device.h"

namespace tombolo {
namespace {

using trainer::cuda::MemoryUse;

/// A job for GPUs and one of its stages.
struct Case {
  planner::Job job;
  std::vector<planner::Stage> stages;
  int stage = 0;
};

Case random_case(std::mt19937& random) {
  const auto from_to = [&](int low, int high) {
    return low + static_cast<int>(random() % static_cast<unsigned>(high - low + 1));
  };
  Case one;
  planner::Job& job = one.job;
  job.device = planner::TrainerDevice::kCuda;
  job.model.heads = from_to(1, 16);
  job.model.hidden = job.model.heads * from_to(1, 96);
  job.model.context = from_to(1, 2048);
  job.model.vocabulary = from_to(2, 60000);
  job.model.bytes_per_value = 2 * from_to(1, 2);
  job.moment_bytes = 2 * from_to(1, 2);
  job.recompute = static_cast<planner::Recompute>(from_to(0, 2));
  job.micro_batch = from_to(1, 8);
  job.pipeline = from_to(1, 5);
  job.data = 1;
  job.global_batch = job.micro_batch * from_to(1, 6);
  for (int stage = 0; stage < job.pipeline; ++stage) {
    one.stages.push_back({job.model.layers, from_to(1, 6), 1});
    job.model.layers += one.stages.back().layers;
  }
  one.stage = from_to(0, job.pipeline - 1);
  return one;
}

/// What the trainer would allocate; nothing is.
trainer::cuda::MemoryPlan planned_by_trainer(const Case& one) {
  planner::Model fp32 = one.job.model;
  fp32.bytes_per_value = 4;  // the trainer's shape does not say the precision
  const auto precision = [](int bytes) {
    return bytes == 2 ? compute::Precision::kBfloat16 : compute::Precision::kFloat32;
  };
  trainer::StageOptions options;
  options.shape = trainer::to_shape(fp32);
  options.first_layer = one.stages[static_cast<std::size_t>(one.stage)].first_layer;
  options.layers = one.stages[static_cast<std::size_t>(one.stage)].layers;
  options.rows = one.job.micro_batch;
  options.in_flight = planner::micro_batches_in_flight(one.stage, one.job.pipeline,
                                                       one.job.global_batch / one.job.micro_batch);
  options.precision = precision(one.job.model.bytes_per_value);
  options.moments = precision(one.job.moment_bytes);
  options.recompute = one.job.recompute;
  const trainer::StageParameters layout(options.shape, options.first_layer, options.layers);
  const trainer::cuda::PretendedDevice device({.workspace = trainer::cuda::kProductWorkspace});
  const trainer::cuda::StageSizes sizes(options, {}, layout, device);
  trainer::cuda::MemoryPlan plan;
  trainer::cuda::DeviceBuffers(trainer::cuda::PlanCarver(plan, nullptr), sizes, layout.slices().size());
  return plan;
}

TEST(CudaMemory, IsPlannedAsTheTrainerAllocatesIt) {
  std::mt19937 random(test_seed());
  for (int round = 0; round < test_rounds(300); ++round) {
    const Case one = random_case(random);
    SCOPED_TRACE(fmt::format(
        "hidden {}, heads {}, context {}, vocabulary {}, {} bytes, moments of {}, recompute {}, {} rows, "
        "stage "
        "{} of {}",
        one.job.model.hidden, one.job.model.heads, one.job.model.context, one.job.model.vocabulary,
        one.job.model.bytes_per_value, one.job.moment_bytes, planner::recompute_name(one.job.recompute),
        one.job.micro_batch, one.stage, one.job.pipeline));
    planner::Plan plan;
    plan.job = one.job;
    plan.pipelines = planner::equal_pipelines(one.job, one.stages);
    const planner::RankMemory planned = planner::rank_memory(plan, 0, one.stage);
    const trainer::cuda::MemoryPlan real = planned_by_trainer(one);
    EXPECT_EQ(planned.parameters, real.bytes(MemoryUse::kParameters));
    EXPECT_EQ(planned.gradients, real.bytes(MemoryUse::kGradients));
    EXPECT_EQ(planned.optimizer, real.bytes(MemoryUse::kOptimizer));
    EXPECT_EQ(planned.activations, real.bytes(MemoryUse::kActivations));
    EXPECT_EQ(planned.buffers, real.bytes(MemoryUse::kBuffers));
    EXPECT_EQ(planned.total, real.bytes());
    if (testing::Test::HasFailure()) return;
  }
}

}  // namespace
}  // namespace tombolo
