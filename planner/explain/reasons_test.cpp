#include "planner/explain/reasons.h"

#include <fmt/ranges.h>
#include <gtest/gtest.h>

#include "planner/cost/memory.h"
#include "planner/simulate/simulator.h"
#include "planner/testing/testing.h"
#include "planner/testing/testing_launch.h"

namespace tombolo::planner {
namespace {

using testing::make_cluster;
using testing::simple_plan;
using testing::small_model;

std::string reasons(Plan plan, const topology::ClusterFile& cluster) {
  plan.prediction.memory = memory_by_rank(plan);
  const Simulation simulation = simulate(plan, cluster);
  plan.prediction.step_seconds = simulation.step_seconds;
  plan.prediction.reductions = simulation.reductions;
  return fmt::format("{}\n", fmt::join(reasons_of(plan, cluster), "\n"));
}

Plan megatron_plan() {
  Plan plan = simple_plan(small_model(8), {"a0", "a0", "a1", "a1"}, 2, 2, 4);
  plan.job.framework = Framework::kMegatron;
  return plan;
}

TEST(Reasons, SayHowTheEngineIsExpectedToReduce) {
  const auto cluster = make_cluster({{"a", 2}, {"b", 2}}, 1e7, 1e-3);
  const std::string text = reasons(simple_plan(small_model(8), {"a0", "a1", "b0", "b1"}, 1, 4, 4), cluster);
  EXPECT_MENTIONS(text, "expected to reduce gradients by two-level in pieces of ");
  EXPECT_MENTIONS(text, " calls per step, the longest ");
  EXPECT_MENTIONS(text, "two-level takes ranks of several clusters");
  EXPECT_EQ(reasons(megatron_plan(), make_cluster({{"a", 2, 2}}, 1e9)).find("engine"), std::string::npos);
}

TEST(Reasons, SayWhatLacksWithoutAChoice) {
  auto cluster = make_cluster({{"a", 2, 2}}, 1e9);
  Plan plan = megatron_plan();
  plan.job.recompute = Recompute::kFull;
  std::uint64_t most = 0;
  for (const RankMemory& memory : memory_by_rank(plan)) most = std::max(most, memory.total);
  for (auto& host : cluster.hosts)
    for (auto& device : host.devices) device.memory_bytes = static_cast<double>(most);
  const std::string text = reasons(plan, cluster);
  EXPECT_MENTIONS(text, "full recomputation: without, a rank on a0 would need ");
  EXPECT_MENTIONS(text, "not interleaved: with 2 model chunks per stage, a rank on a0 would need ");
  EXPECT_MENTIONS(text, "fits without tensor parallelism, sharding among replicas\n");
}

TEST(Reasons, SayWhyAPipelineIsNotInterleaved) {
  const auto cluster = make_cluster({{"a", 2, 2}}, 1e9);
  Plan plan = megatron_plan();
  EXPECT_MENTIONS(reasons(plan, cluster),
                  "not interleaved: with 2 model chunks per stage, a step would take ");
  plan.job.micro_batch = 1;
  for (Pipeline& pipeline : plan.pipelines) pipeline = {pipeline.stages, 3, 1};
  plan.job.global_batch = 6;
  EXPECT_MENTIONS(reasons(plan, cluster), "a multiple of the stages");
  plan = simple_plan(small_model(2), {"a0", "a0", "a1", "a1"}, 2, 2, 4);
  plan.job.framework = Framework::kMegatron;
  EXPECT_MENTIONS(reasons(plan, cluster), "a stage has fewer layers than it would have chunks");
  plan.job.framework = Framework::kTombolo;
  EXPECT_EQ(reasons(plan, cluster).find("interleaved"), std::string::npos) << "it has no such schedule";
}

TEST(Reasons, CountOnlyTheMemoryThatAPlanMayUse) {
  auto cluster = make_cluster({{"a", 2, 2}}, 1e9);
  Plan plan = megatron_plan();
  std::uint64_t most = 0;
  for (const RankMemory& memory : memory_by_rank(plan)) most = std::max(most, memory.total);
  for (auto& host : cluster.hosts) {
    for (auto& device : host.devices) {
      device.kind = topology::DeviceKind::kGpu;
      device.memory_bytes = static_cast<double>(most) + 10;
    }
  }
  plan.job.recompute = Recompute::kFull;
  plan.job.reserve_bytes = 0;
  EXPECT_MENTIONS(reasons(plan, cluster), "full recomputation: without, a step would take ");
  plan.job.reserve_bytes = 4096;
  EXPECT_MENTIONS(reasons(plan, cluster), "full recomputation: without, a rank on a0 would need ");
}

TEST(Reasons, SayHowLongAStepWouldTakeWithout) {
  const auto cluster = make_cluster({{"a", 2, 2}}, 1e9);
  Plan plan = megatron_plan();
  plan.job.schedule = Schedule::kInterleaved;
  plan.job.chunks = 2;
  plan.pipelines = equal_pipelines(plan.job, {{0, 2}, {2, 2}, {4, 2}, {6, 2}});
  EXPECT_MENTIONS(reasons(plan, cluster),
                  "schedule interleaved, 2 model chunks per stage: with 1f1b a step would take ");
  plan = megatron_plan();
  plan.job.sharding = Sharding::kOptimizer;
  EXPECT_MENTIONS(reasons(plan, cluster),
                  "replicas share the optimizer's state: without, a step would take ");
}

TEST(Reasons, SayWhatUnevenRoutingCosts) {
  const auto cluster = make_cluster({{"a", 1, 2}}, 1e9);
  Plan plan = simple_plan(testing::mixture_model(8), {"a0", "a0"}, 1, 2, 4);
  plan.job.framework = Framework::kMegatron;
  plan.job.model.expert_imbalance = 1.5;
  EXPECT_EQ(reasons(plan, cluster).find("expert_imbalance"), std::string::npos) << "each has all experts";
  plan.job.expert_parallel = 2;
  EXPECT_MENTIONS(
      reasons(plan, cluster),
      "is taken to get 1.5 times the mean, as measured (expert_imbalance), and the others wait for "
      "it: with even routing, a step would take ");
  plan.job.model.expert_imbalance = 1;
  EXPECT_EQ(reasons(plan, cluster).find("expert_imbalance"), std::string::npos);
}

TEST(Reasons, SayWhyLayersAreShared) {
  auto cluster = make_cluster({{"a", 1, 2}}, 1e9);
  Plan plan = simple_plan(small_model(8), {"a0"}, 1, 1, 4);
  plan.job.framework = Framework::kMegatron;
  plan.job.tensor = 2;
  plan.job.sequence_parallel = true;
  plan.pipelines[0].stages[0].tensor = 2;
  plan.ranks = {{"a0", 0, 0, 0, 0}, {"a0", 1, 0, 0, 1}};
  cluster.hosts[0].device_bytes_per_second = 1e9;
  for (auto& device : cluster.hosts[0].devices)
    device.memory_bytes = static_cast<double>(rank_memory(plan, 0, 0).total);
  const std::string text = reasons(plan, cluster);
  EXPECT_MENTIONS(text, "2 ranks share each layer (tensor parallelism): with whole layers a rank ");
  EXPECT_MENTIONS(text, "they divide the sequence where they would hold the same: without, a rank ");
}

}  // namespace
}  // namespace tombolo::planner
