#include <gtest/gtest.h>

#include <map>

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
