#include "planner/simulate/step_graph.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "planner/testing/testing.h"

namespace tombolo::planner {
namespace {

using testing::make_cluster;
using testing::simple_plan;
using testing::small_model;

TEST(StepGraph, EveryRankUpdatesOnceAllGradientsAreReduced) {
  auto cluster = make_cluster({{"a", 4}}, 1e6, 1e-3);
  for (auto& host : cluster.hosts) host.devices[0].memory_bytes_per_second = 1e9;
  const Plan plan = simple_plan(small_model(4), {"a0", "a1", "a2", "a3"}, 2, 2, 3);
  StepGraph graph = build_step(plan, ClusterView(cluster, "per-peer", {}), 1);
  graph.engine.run();
  double reduced = 0, updating = 1e9;
  int updates = 0;
  for (const Bar& bar : graph.bars) {
    if (bar.kind == Bar::Kind::kOptimizer) {
      updating = std::min(updating, graph.engine.begin(bar.first));
      ++updates;
    } else {
      reduced = std::max(reduced, graph.engine.end(bar.last));
    }
  }
  EXPECT_EQ(updates, 4);
  // The norm of all gradients takes one message among the replicas and one among the stages.
  EXPECT_NEAR(updating, reduced + 2e-3, 1e-9);
}

TEST(StepGraph, RanksThatShareASlotAreOneWorker) {
  auto cluster = make_cluster({{"a", 1, 4}}, 1e6);
  Plan plan = simple_plan(small_model(4), {"a0", "a0", "a0", "a0"}, 2, 1, 3);
  plan.job.framework = Framework::kMegatron;
  plan.job.tensor = 2;
  plan.pipelines[0].stages = {{0, 2, 2}, {2, 2, 2}};
  for (int rank = 0; rank < 4; ++rank)
    plan.ranks[static_cast<std::size_t>(rank)] = {"a0", rank, rank / 2, 0, rank % 2};
  const StepGraph graph = build_step(plan, ClusterView(cluster, "per-peer", {}), 1);
  for (const Bar& bar : graph.bars) EXPECT_EQ(bar.rank % 2, 0) << "the first of each slot";
}

}  // namespace
}  // namespace tombolo::planner
