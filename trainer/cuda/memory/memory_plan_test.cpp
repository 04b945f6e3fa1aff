#include "trainer/cuda/memory/memory_plan.h"

#include <gtest/gtest.h>

#include "planner/cost/memory.h"
#include "planner/model/schedule.h"
#include "trainer/cuda/memory/stage_buffers.h"
#include "trainer/cuda/stage/cuda_stage.h"
#include "trainer/cuda/testing/pretended_device.h"

namespace tombolo::trainer::cuda {
namespace {

TEST(MemoryPlan, PiecesLieSideBySideAndAligned) {
  MemoryPlan plan;
  EXPECT_EQ(plan.take(MemoryUse::kGradients, "a", 100), 0U);
  EXPECT_EQ(plan.take(MemoryUse::kBuffers, "b", 256), 256U);
  EXPECT_EQ(plan.take(MemoryUse::kBuffers, "b", 257), 512U);
  EXPECT_EQ(plan.bytes(), 1024U);
  EXPECT_EQ(plan.bytes(MemoryUse::kBuffers), 768U);
  EXPECT_EQ(plan.bytes(MemoryUse::kParameters), 0U);
}

TEST(MemoryPlan, TheTableHasALinePerNameAndTheSum) {
  MemoryPlan plan;
  plan.take(MemoryUse::kGradients, "gradients", 1024);
  plan.take(MemoryUse::kActivations, "norms", 512);
  plan.take(MemoryUse::kActivations, "norms", 512);
  const std::string table = plan.table("memory");
  EXPECT_TRUE(table.starts_with("memory:\n")) << table;
  EXPECT_EQ(std::count(table.begin(), table.end(), '\n'), 4) << table;
  EXPECT_NE(table.find("50.0 %"), std::string::npos) << table;
  EXPECT_NE(table.find("100.0 %"), std::string::npos) << table;
}

StageOptions stage_of(int stage, int rows) {
  StageOptions options;
  options.shape.context = 64;
  options.shape.vocabulary = options.shape.padded_vocabulary = 256;
  options.shape.layers = 6;
  options.shape.heads = 4;
  options.shape.width = 64;
  options.first_layer = 2 * stage;
  options.layers = 2;
  options.rows = rows;
  options.in_flight = planner::micro_batches_in_flight(stage, 3, 8);
  return options;
}

StageMemory memory_of(const StageOptions& options) {
  return make_cuda_stage(std::make_shared<PretendedDevice>(), options)->memory();
}

// The planner counts the CPU's stage, which keeps the attention's weights and the scores. A GPU's keeps
// neither: it may only need less.
TEST(StageMemory, IsThePlannersInFp32ButForWhatIsNotKept) {
  for (const int rows : {1, 3})
    for (int stage = 0; stage < 3; ++stage) {
      const StageOptions options = stage_of(stage, rows);
      planner::Job job;
      job.model = to_planner_model(options.shape);
      job.micro_batch = rows;
      job.pipeline = 3;
      job.data = 1;
      job.global_batch = 8 * rows;
      planner::Plan plan;
      plan.job = job;
      plan.pipelines = planner::equal_pipelines(job, {{0, 2}, {2, 2}, {4, 2}});
      const planner::RankMemory planned = planner::rank_memory(plan, 0, stage);
      const StageMemory real = memory_of(options);
      // Everything begins at a multiple of 256 bytes.
      EXPECT_NEAR(static_cast<double>(real.parameters), static_cast<double>(planned.parameters), 256);
      EXPECT_NEAR(static_cast<double>(real.gradients), static_cast<double>(planned.gradients), 256);
      // Both moments, and the constants of a step.
      EXPECT_NEAR(static_cast<double>(real.optimizer), static_cast<double>(planned.optimizer), 2048);
      // Two boundaries and the norms' sums are scratch that the CPU does without.
      const std::size_t boundary = static_cast<std::size_t>(rows) * 64 * 64 * sizeof(float);
      EXPECT_LT(real.activations, planned.activations + planned.buffers + 2 * boundary +
                                      norm_backward_scratch(64) * sizeof(float) + 64 * 1024)
          << "stage " << stage << " rows " << rows;
    }
}

TEST(StageMemory, IsOneAllocationOfWhatThePlanSays) {
  const auto device = std::make_shared<PretendedDevice>();
  const StageMemory memory = make_cuda_stage(device, stage_of(1, 2))->memory();
  EXPECT_EQ(device->allocated(),
            memory.parameters + memory.gradients + memory.optimizer + memory.activations);
}

TEST(StageMemory, Bfloat16HalvesActivationsAndMomentsAndAddsACopyOfTheParameters) {
  StageOptions options = stage_of(1, 2);
  const StageMemory exact = memory_of(options);
  options.precision = compute::Precision::kBfloat16;
  const StageMemory rounded = memory_of(options);
  EXPECT_EQ(rounded.parameters, exact.parameters + exact.parameters / 2);
  EXPECT_EQ(rounded.gradients, exact.gradients);
  EXPECT_EQ(rounded.optimizer, exact.optimizer);
  EXPECT_LT(rounded.activations, exact.activations * 6 / 10);
  options.moments = compute::Precision::kBfloat16;
  EXPECT_EQ(exact.optimizer - memory_of(options).optimizer, exact.gradients) << "half of two moments";
}

TEST(StageMemory, FullRecomputationKeepsABlocksOutputAlone) {
  StageOptions options = stage_of(1, 2);
  options.in_flight = 1;
  const auto of_layers = [&](int layers, planner::Recompute recompute) {
    options.layers = layers;
    options.recompute = recompute;
    return memory_of(options).activations;
  };
  const std::size_t boundary = 2 * 64 * 64 * sizeof(float), statistics = 2 * 64 * (4 + 4) * sizeof(float);
  EXPECT_EQ(of_layers(2, planner::Recompute::kNone) - of_layers(1, planner::Recompute::kNone),
            16 * boundary + statistics);
  EXPECT_EQ(of_layers(2, planner::Recompute::kFull) - of_layers(1, planner::Recompute::kFull), boundary);
  EXPECT_EQ(of_layers(2, planner::Recompute::kSelective), of_layers(2, planner::Recompute::kNone))
      << "attention never keeps its weights";
}

/// What a whole GPT-2 of 1.5 billion parameters takes, by a plan for which nothing is allocated.
std::size_t gpt2_xl_bytes(int rows, planner::Recompute recompute) {
  StageOptions options;
  options.shape.context = 1024;
  options.shape.vocabulary = 50257;
  options.shape.padded_vocabulary = 50304;
  options.shape.layers = options.layers = 48;
  options.shape.heads = 25;
  options.shape.width = 1600;
  options.rows = rows;
  options.in_flight = 1;
  options.precision = compute::Precision::kBfloat16;
  options.recompute = recompute;
  options.exchanges_gradients = false;
  const StageParameters layout(options.shape, 0, options.layers);
  const PretendedDevice device;
  const StageSizes sizes(options, {}, layout, device);
  MemoryPlan plan;
  DeviceBuffers(PlanCarver(plan, nullptr), sizes, layout.slices().size());
  return plan.bytes();
}

TEST(StageMemory, OfTheLargestGpt2FitsAGpuOf80Gigabytes) {
  // Of the 80 GiB that are sold, the driver leaves 79.1; the libraries take less than 2.
  constexpr std::size_t kFree = std::size_t{77} << 30;
  EXPECT_LT(gpt2_xl_bytes(16, planner::Recompute::kNone), kFree);
  EXPECT_LT(gpt2_xl_bytes(64, planner::Recompute::kFull), kFree);
  EXPECT_GT(gpt2_xl_bytes(64, planner::Recompute::kNone), kFree) << "so that it says something";
  // Per row of the batch one boundary of each layer, and what a single block keeps and works with.
  const std::size_t row =
      gpt2_xl_bytes(65, planner::Recompute::kFull) - gpt2_xl_bytes(64, planner::Recompute::kFull);
  EXPECT_GT(row, std::size_t{49} * 1024 * 1600 * 2);
  EXPECT_LT(row, std::size_t{49 + 32} * 1024 * 1600 * 2);
}

TEST(StageMemory, ScoresAreHeldForAChunkOfTokens) {
  const StageOptions options = stage_of(2, 3);
  CudaStageOptions chunked;
  chunked.chunk_tokens = 16;
  const auto whole = make_cuda_stage(std::make_shared<PretendedDevice>(), options);
  const auto some = make_cuda_stage(std::make_shared<PretendedDevice>(), options, chunked);
  EXPECT_EQ(whole->memory().activations - some->memory().activations, (3 * 64 - 16) * 256 * sizeof(float));
}

}  // namespace
}  // namespace tombolo::trainer::cuda
