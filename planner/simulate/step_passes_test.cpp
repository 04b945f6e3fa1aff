#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <memory>

#include "planner/cost/memory.h"
#include "planner/simulate/simulator.h"
#include "planner/simulate/step_graph.h"
#include "planner/testing/testing.h"

namespace tombolo::planner {
namespace {

using testing::make_cluster;
using testing::simple_plan;
using testing::small_model;

std::map<Bar::Kind, int> bars_of(const StepGraph& graph, int rank) {
  std::map<Bar::Kind, int> count;
  for (const Bar& bar : graph.bars)
    if (bar.rank == rank) ++count[bar.kind];
  return count;
}

double bytes_between(const StepGraph& graph, int from, int to) {
  for (const Flow& flow : graph.flows)
    if (flow.from_host == from && flow.to_host == to) return flow.bytes;
  return 0;
}

/// Two stages on two hosts, without what the tied embedding sends.
Plan two_stages(int micro_batches) {
  Model model = small_model(4);
  model.tied_embeddings = false;
  return simple_plan(model, {"a0", "a1"}, 2, 1, micro_batches);
}

TEST(StepPasses, EveryMicroBatchPassesForwardsAndBackOnce) {
  const auto cluster = make_cluster({{"a", 2}}, 1e6);
  const Plan plan = two_stages(5);
  const StepGraph graph = build_step(plan, ClusterView(cluster, "per-peer", {}), 1);
  for (const int rank : {0, 1}) {
    auto bars = bars_of(graph, rank);
    EXPECT_EQ(bars[Bar::Kind::kForward], 5);
    EXPECT_EQ(bars[Bar::Kind::kBackward], 5);
    EXPECT_EQ(bars[Bar::Kind::kSend], 5) << "activations one way, gradients the other";
    EXPECT_EQ(bars[Bar::Kind::kReduce], 0) << "one replica";
  }
  EXPECT_DOUBLE_EQ(bytes_between(graph, 0, 1), 5 * plan.job.model.boundary_bytes());
  EXPECT_DOUBLE_EQ(bytes_between(graph, 1, 0), 5 * plan.job.model.boundary_bytes());
}

// nanotron's last stage may have the output projection alone, and others may pass on what they get.
TEST(StepPasses, AStageWithoutLayersPassesOnWhatItGets) {
  const auto cluster = make_cluster({{"a", 3}}, 1e6);
  Model model = small_model(4);
  model.tied_embeddings = false;
  Plan plan = simple_plan(model, {"a0", "a1", "a2"}, 3, 1, 1);
  const ClusterView view(cluster, "per-peer", {});
  const auto split = [&](int first, int second, int third) {
    for (Pipeline& pipeline : plan.pipelines)
      pipeline.stages = {{0, first, pipeline.stages[0].tensor},
                         {first, second, pipeline.stages[1].tensor},
                         {first + second, third, pipeline.stages[2].tensor}};
    return simulate(plan, view, {.spans = false}).step_seconds;
  };
  // One micro-batch passes all layers once, wherever they are, and as many borders.
  const double with = split(2, 1, 1);
  EXPECT_DOUBLE_EQ(split(4, 0, 0), with);
  EXPECT_DOUBLE_EQ(split(2, 0, 2), with);
  auto bars = bars_of(build_step(plan, view, 1), 1);
  EXPECT_EQ(bars[Bar::Kind::kForward], 1);
  EXPECT_EQ(bars[Bar::Kind::kBackward], 1);
  EXPECT_EQ(bars[Bar::Kind::kSend], 2);
}

/// Two or three stages of a software of which it is known how long passes wait where memory is short.
Plan crowded_stages(int stages, int micro_batches, double seconds) {
  const std::vector<std::string> hosts = {"a0", "a1", "a2"};
  Model model = small_model(6);
  model.tied_embeddings = false;
  Plan plan = simple_plan(model, {hosts.begin(), hosts.begin() + stages}, stages, 1, micro_batches);
  plan.job.framework = Framework::kMegatron;
  auto profiles = std::make_shared<ComputeProfiles>();
  ComputeProfile profile;
  profile.crowded_seconds = seconds;
  profiles->add(std::string(ComputeLibrary::kAnyGpu), profile);
  plan.job.compute = profiles;
  plan.job.reserve_bytes = 0;
  return plan;
}

TEST(StepPasses, PassesThatReceiveWaitWhereADeviceLacksMemory) {
  for (const int stages : {2, 3}) {
    constexpr int kMicroBatches = 8;
    const Plan plan = crowded_stages(stages, kMicroBatches, 1000);
    const auto step = [&](double memory_bytes) {
      auto cluster = make_cluster({{"a", 3}}, 1e12);
      for (auto& host : cluster.hosts)
        for (auto& device : host.devices) {
          device.kind = topology::DeviceKind::kGpu;
          device.memory_bytes = memory_bytes;
        }
      return simulate(plan, ClusterView(cluster, "per-peer", {}), {.spans = false}).step_seconds;
    };
    const double most =
        static_cast<double>(std::ranges::max(memory_by_rank(plan), {}, [](const RankMemory& memory) {
                              return memory.total;
                            }).total);
    const double roomy = step(most), crowded = step(most - 1);
    EXPECT_DOUBLE_EQ(roomy, step(0)) << "of an unknown size";
    // A stage in the middle waits for an activation and for a gradient of each micro-batch, the ends for one.
    const double waits = stages == 2 ? kMicroBatches : 2 * (kMicroBatches - 1);
    EXPECT_NEAR((crowded - roomy) / 1000, waits + (stages - 1), 1.01) << stages << " stages";
  }
}

TEST(StepPasses, WhatIsNotYetGivenBackFillsADeviceToo) {
  Model model = small_model(6);
  Plan plan = simple_plan(model, {"a0", "a0", "a0", "a0", "a0", "a0"}, 3, 2, 8);
  plan.job.data = 1;
  plan.job.tensor = 2;
  plan.job.framework = Framework::kMegatron;
  plan.pipelines.resize(1);
  for (Stage& stage : plan.pipelines[0].stages) stage.tensor = 2;
  for (RankPlacement& rank : plan.ranks) rank = {rank.host, rank.device, rank.stage, 0, rank.replica};
  auto profiles = std::make_shared<ComputeProfiles>();
  ComputeProfile profile;
  profile.crowded_seconds = 1000;
  profiles->add(std::string(ComputeLibrary::kAnyGpu), profile);
  plan.job.compute = profiles;
  plan.job.reserve_bytes = 0;
  auto cluster = make_cluster({{"a", 1, 6}}, 1e12);
  std::uint64_t most = 0;
  profiles->memory = HeldMemory{.kept_hidden = 8, .logit_bytes = 4, .source = "made up"};
  for (int stage = 0; stage < 3; ++stage) most = std::max(most, rank_memory(plan, 0, stage).total);
  for (auto& device : cluster.hosts[0].devices) {
    device.kind = topology::DeviceKind::kGpu;
    device.memory_bytes = static_cast<double>(most);
  }
  const auto step = [&](double tensors) {
    profiles->memory->deferred_staged = tensors;
    profiles->memory->deferred_tensor = 2;
    return simulate(plan, ClusterView(cluster, "per-peer", {}), {.spans = false}).step_seconds;
  };
  EXPECT_GT(step(1), step(0) + 1000);
}

TEST(StepPasses, ZeroBubbleH1SplitsTheBackwardPass) {
  const auto cluster = make_cluster({{"a", 2}}, 1e6);
  Plan plan = two_stages(4);
  plan.job.framework = Framework::kMegatron;
  plan.job.schedule = Schedule::kZeroBubbleH1;
  auto bars = bars_of(build_step(plan, ClusterView(cluster, "per-peer", {}), 1), 0);
  EXPECT_EQ(bars[Bar::Kind::kBackward], 4) << "the gradients of the input";
  EXPECT_EQ(bars[Bar::Kind::kBackwardWeights], 4);
}

TEST(StepPasses, ChunksSendAroundThePipeline) {
  const auto cluster = make_cluster({{"a", 2}}, 1e6);
  Plan plan = two_stages(4);
  plan.job.framework = Framework::kMegatron;
  plan.job.schedule = Schedule::kInterleaved;
  plan.job.chunks = 2;
  plan.pipelines = equal_pipelines(plan.job, to_stages({1, 1, 1, 1}));
  const StepGraph graph = build_step(plan, ClusterView(cluster, "per-peer", {}), 1);
  // Three borders: two from a0 to a1, one back; gradients the other way round.
  EXPECT_DOUBLE_EQ(bytes_between(graph, 0, 1), (2 + 1) * 4 * plan.job.model.boundary_bytes());
  EXPECT_DOUBLE_EQ(bytes_between(graph, 1, 0), (1 + 2) * 4 * plan.job.model.boundary_bytes());
}

TEST(StepPasses, AStageWaitsForTheActivationsOfTheOneBefore) {
  const auto cluster = make_cluster({{"a", 2}}, 1e6, 0.5);
  const Plan plan = two_stages(1);
  StepGraph graph = build_step(plan, ClusterView(cluster, "per-peer", {}), 1);
  graph.engine.run();
  double first_end = 0, second_begin = 0;
  for (const Bar& bar : graph.bars)
    if (bar.kind == Bar::Kind::kForward)
      (bar.rank == 0 ? first_end : second_begin) =
          bar.rank == 0 ? graph.engine.end(bar.last) : graph.engine.begin(bar.first);
  EXPECT_NEAR(second_begin - first_end, plan.job.model.boundary_bytes() / 1e6 + 0.5, 1e-9);
}

}  // namespace
}  // namespace tombolo::planner
