#include "planner/simulate/step_graph.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <random>

#include "base/randomized_test.h"
#include "planner/cost/engine_reduction.h"
#include "planner/testing/testing_search.h"

namespace tombolo::planner {
namespace {

using testing::make_cluster;
using testing::simple_plan;
using testing::small_model;

TEST(StepGraph, EveryRankUpdatesOnceAllGradientsAreReduced) {
  auto cluster = make_cluster({{"a", 4}}, 1e6, 1e-3);
  for (auto& host : cluster.hosts) host.devices[0].memory_bytes_per_second = 1e9;
  Plan plan = simple_plan(small_model(4), {"a0", "a1", "a2", "a3"}, 2, 2, 3);
  plan.job.framework = Framework::kMegatron;
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

TEST(StepGraph, TheNormCrossesToOtherClustersNoOftenerThanTheseMustMeet) {
  constexpr double kNear = 1e-3, kFar = 0.5;
  auto cluster = make_cluster({{"a", 4}, {"b", 4}}, 1e9, kNear);
  for (auto& host : cluster.hosts) host.devices[0].memory_bytes_per_second = 1e9;
  for (auto& link : cluster.links)
    if (link.from_host[0] != link.to_host[0]) link.latency_seconds = kFar;
  Plan plan = simple_plan(small_model(4), {"a0", "a1", "a2", "a3", "b0", "b1", "b2", "b3"}, 2, 4, 8);
  plan.job.framework = Framework::kMegatron;
  StepGraph graph = build_step(plan, ClusterView(cluster, "per-peer", {}), 1);
  graph.engine.run();
  double ready = 0, updating = 1e9;
  for (const Bar& bar : graph.bars)
    if (bar.kind == Bar::Kind::kOptimizer)
      updating = std::min(updating, graph.engine.begin(bar.first));
    else
      ready = std::max(ready, graph.engine.end(bar.last));
  // Four replicas of two stages meet in three rounds, and two clusters in one of them.
  EXPECT_NEAR(updating, ready + kFar + 2 * kNear, 1e-9);
}

TEST(StepGraph, TheBundledTrainerSumsTheNormByTheEngine) {
  auto cluster = make_cluster({{"a", 4}}, 1e6, 1e-3);
  for (auto& host : cluster.hosts) host.devices[0].memory_bytes_per_second = 1e9;
  const Plan plan = simple_plan(small_model(4), {"a0", "a1", "a2", "a3"}, 2, 2, 3);
  const ClusterView view(cluster, "per-peer", {});
  StepGraph graph = build_step(plan, view, 1);
  graph.engine.run();
  double reduced = 0, updating = 1e9;
  for (const Bar& bar : graph.bars)
    if (bar.kind == Bar::Kind::kOptimizer)
      updating = std::min(updating, graph.engine.begin(bar.first));
    else
      reduced = std::max(reduced, graph.engine.end(bar.last));
  const auto seconds = [&](int values) {
    return EngineModel(view, {0, 1}).all_reduce(values * 8.0, 8).seconds;
  };
  EXPECT_NEAR(updating, reduced + seconds(4) + seconds(5), 1e-9);
  EXPECT_GT(seconds(4), 1e-3);
}

TEST(StepGraph, TheStepOfOneReplicaAloneIsALowerBound) {
  std::mt19937_64 random(test_seed());
  double closest = 0;
  for (int round = 0; round < test_rounds(100); ++round) {
    const auto cluster = testing::random_cluster(random, 8);
    const ClusterView view(cluster, "per-peer", {});
    std::vector<std::string> hosts;
    for (const auto& host : cluster.hosts)
      for (std::size_t device = 0; device < host.devices.size(); ++device) hosts.push_back(host.name);
    const int stages = 1 << round % 4;
    Plan plan =
        simple_plan(small_model(8), hosts, stages, 8 / stages, 8 * (1 + static_cast<int>(random() % 3)));
    std::map<std::string, int> taken;
    for (RankPlacement& rank : plan.ranks) rank.device = taken[rank.host]++;
    plan.job.overlap_gradients = random() % 2 == 0;
    StepGraph graph = build_step(plan, view, 1);
    graph.engine.run();
    const double least = least_step_seconds(plan, view);
    EXPECT_LE(least, graph.engine.finish() * (1 + 1e-9));
    closest = std::max(closest, least / graph.engine.finish());
  }
  EXPECT_GT(closest, 0.8) << "a bound that says nothing";
}

TEST(StepGraph, IsTheSameInTheMemoryOfAnother) {
  const auto cluster = make_cluster({{"a", 4}}, 1e6, 1e-3);
  const ClusterView view(cluster, "per-peer", {});
  const Plan plan = simple_plan(small_model(4), {"a0", "a1", "a2", "a3"}, 2, 2, 3),
             longer = simple_plan(small_model(4), {"a0", "a1", "a2", "a3"}, 4, 1, 16);
  StepGraph own = build_step(plan, view, 1), other = build_step(longer, view, 1);
  own.engine.run();
  other.engine.run(1e-3);  // cut off, so that activities still wait
  StepGraph again = build_step(plan, view, 1, std::move(other));
  again.engine.run();
  EXPECT_EQ(again.engine.size(), own.engine.size());
  EXPECT_EQ(again.engine.finish(), own.engine.finish());
  ASSERT_EQ(again.bars.size(), own.bars.size());
  for (std::size_t i = 0; i < own.bars.size(); ++i)
    EXPECT_EQ(again.engine.end(again.bars[i].last), own.engine.end(own.bars[i].last));
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
