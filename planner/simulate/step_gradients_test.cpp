#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <vector>

#include "planner/cost/engine_reduction.h"
#include "planner/simulate/step_graph.h"
#include "planner/testing/testing.h"

namespace tombolo::planner {
namespace {

using testing::make_cluster;
using testing::simple_plan;
using testing::small_model;

StepGraph graph_of(const Plan& plan, const topology::ClusterFile& cluster, std::uint64_t bucket_bytes = 1) {
  return build_step(plan, ClusterView(cluster, plan.routing, {}), bucket_bytes);
}

int reductions(const StepGraph& graph) {
  int count = 0;
  for (const Bar& bar : graph.bars) count += bar.kind == Bar::Kind::kReduce && bar.rank == 0;
  return count;
}

double bytes_out_of(const StepGraph& graph, int host) {
  double bytes = 0;
  for (const Flow& flow : graph.flows)
    if (flow.from_host == host) bytes += flow.bytes;
  return bytes;
}

TEST(StepGradients, EachReplicaSendsTheRingsShareOfEveryParameter) {
  const auto cluster = make_cluster({{"a", 3}}, 1e6);
  Plan plan = simple_plan(small_model(4), {"a0", "a1", "a2"}, 1, 3, 2);
  plan.job.framework = Framework::kMegatron;
  const double gradients = static_cast<double>(plan.job.model.parameters()) * 4;
  for (const std::uint64_t bucket : {std::uint64_t{1}, std::uint64_t{1} << 40}) {
    const StepGraph graph = graph_of(plan, cluster, bucket);
    for (int host = 0; host < 3; ++host)
      EXPECT_NEAR(bytes_out_of(graph, host), 2 * 2.0 / 3 * gradients, 1e-3) << "bucket " << bucket;
  }
}

TEST(StepGradients, BucketsEndAtTheBordersOfLayers) {
  const auto cluster = make_cluster({{"a", 2}}, 1e6);
  const Plan plan = simple_plan(small_model(4), {"a0", "a1"}, 1, 2, 2);
  const std::uint64_t layer = plan.job.model.layer_parameters() * 4;
  EXPECT_EQ(reductions(graph_of(plan, cluster, 1)), 4 + 1) << "every layer, and the embedding by itself";
  EXPECT_EQ(reductions(graph_of(plan, cluster, std::uint64_t{1} << 40)), 1);
  // The last layer's bucket holds the final norm too, so that it is full; two more than one layer each.
  EXPECT_EQ(reductions(graph_of(plan, cluster, layer + 1)), 3);
}

TEST(StepGradients, SharedRoutingMakesOneRingOfSeveralClusters) {
  const auto cluster = make_cluster({{"a", 2}, {"b", 2}}, 1e6);
  Plan plan = simple_plan(small_model(4), {"a0", "a1", "b0", "b1"}, 1, 4, 2);
  plan.job.framework = Framework::kMegatron;
  const double gradients = static_cast<double>(plan.job.model.parameters()) * 4;
  const auto crossing = [&] {
    double bytes = 0;
    for (const Flow& flow : graph_of(plan, cluster).flows)
      if (flow.from_host < 2 && flow.to_host >= 2) bytes += flow.bytes;
    return bytes;
  };
  EXPECT_NEAR(crossing(), gradients, 1e-3) << "two levels cross once";
  plan.routing = "shared";
  EXPECT_NEAR(crossing(), 1.5 * gradients, 1e-3) << "a ring's edge carries 2 (n - 1) / n";
}

/// What all replicas' all-reduces take, of which there is one at a time.
double reducing_seconds(StepGraph graph) {
  graph.engine.run();
  double seconds = 0;
  for (const Bar& bar : graph.bars)
    if (bar.kind == Bar::Kind::kReduce && bar.rank == 0)
      seconds += graph.engine.end(bar.last) - graph.engine.begin(bar.first);
  return seconds;
}

TEST(StepGradients, OfTheBundledTrainerTakeWhatTheEnginesModelSays) {
  const auto cluster = make_cluster(
      {{"a", 3, 1, topology::NicKind::kInfiniBand, 1e8}, {"b", 1, 1, topology::NicKind::kInfiniBand, 1e8}},
      1e6, 1e-3);
  const ClusterView view(cluster, "per-peer", {});
  for (const std::vector<std::string>& hosts :
       {std::vector<std::string>{"a0", "a1"}, {"a0", "b0"}, {"a0", "a1", "a2", "b0"}, {"b0", "a0", "a1"}}) {
    const Plan plan = simple_plan(small_model(4), hosts, 1, static_cast<int>(hosts.size()), 2);
    std::vector<int> members;
    for (const std::string& host : hosts) members.push_back(view.host_index(host));
    const EngineModel engine(view, members);
    for (const std::uint64_t bucket : {std::uint64_t{1}, std::uint64_t{1} << 40}) {
      const StepGraph graph = graph_of(plan, cluster, bucket);
      double expected = 0, bytes = 0;
      int calls = 0;
      for (const ExpectedReduction& one : graph.reductions) {
        const EngineCall call = engine.all_reduce(static_cast<double>(one.bytes));
        EXPECT_EQ(one.algorithm, call.choice.name());
        EXPECT_EQ(one.seconds, call.seconds);
        EXPECT_FALSE(one.why.empty());
        EXPECT_EQ(one.ranks.size(), hosts.size());
        expected += one.calls * one.seconds;
        bytes += one.calls * static_cast<double>(one.bytes);
        calls += one.calls;
      }
      EXPECT_EQ(calls, reductions(graph));
      EXPECT_EQ(bytes, static_cast<double>(plan.job.model.parameters()) * 4);
      EXPECT_NEAR(reducing_seconds(graph_of(plan, cluster, bucket)), expected, 1e-9)
          << hosts.size() << " hosts, the last " << hosts.back() << ", bucket " << bucket;
    }
  }
}

TEST(StepGradients, OfTheBundledTrainerCrossOnceBetweenTwoClusters) {
  const auto cluster = make_cluster({{"a", 2}, {"b", 2}}, 1e6, 1e-3);
  const Plan plan = simple_plan(small_model(4), {"a0", "a1", "b0", "b1"}, 1, 4, 2);
  double there = 0, back = 0;
  for (const Flow& flow : graph_of(plan, cluster, std::uint64_t{1} << 40).flows) {
    if (flow.from_host < 2 && flow.to_host >= 2) there += flow.bytes;
    if (flow.from_host >= 2 && flow.to_host < 2) back += flow.bytes;
  }
  EXPECT_NEAR(there, static_cast<double>(plan.job.model.parameters()) * 4, 1);
  EXPECT_NEAR(back, there, 1e-6);
}

TEST(StepGradients, WaitForLinksThatOthersUse) {
  // What two stages' replicas reduce at once shares what leads out of their hosts.
  const auto apart = make_cluster({{"a", 2}}, 1e6, 1e-3), both = make_cluster({{"a", 2, 2}}, 1e6, 1e-3);
  const Plan alone = simple_plan(small_model(4), {"a0", "a1"}, 1, 2, 1);
  Plan together = simple_plan(small_model(4), {"a0", "a1", "a0", "a1"}, 2, 2, 1);
  together.job.overlap_gradients = false;
  const StepGraph graph = graph_of(together, both, std::uint64_t{1} << 40);
  double expected = 0;
  for (const ExpectedReduction& one : graph.reductions) expected = std::max(expected, one.seconds);
  EXPECT_EQ(graph.reductions.size(), 2U) << "of each stage";
  EXPECT_GT(reducing_seconds(graph_of(together, both, std::uint64_t{1} << 40)), 1.2 * expected);
  const StepGraph one = graph_of(alone, apart, std::uint64_t{1} << 40);
  EXPECT_NEAR(reducing_seconds(graph_of(alone, apart, std::uint64_t{1} << 40)), one.reductions.at(0).seconds,
              1e-9);
}

TEST(StepGradients, OfNcclSayNothingOfTheEngine) {
  const auto cluster = make_cluster({{"a", 2}}, 1e6);
  Plan plan = simple_plan(small_model(4), {"a0", "a1"}, 1, 2, 2);
  plan.job.framework = Framework::kMegatron;
  EXPECT_TRUE(graph_of(plan, cluster).reductions.empty());
}

TEST(StepGradients, AShardedOptimizerScattersGradientsAndGathersParameters) {
  const auto cluster = make_cluster({{"a", 2}}, 1e6);
  Plan plan = simple_plan(small_model(4), {"a0", "a1"}, 1, 2, 2);
  plan.job.framework = Framework::kMegatron;
  plan.job.sharding = Sharding::kOptimizer;
  plan.job.model.bytes_per_value = 2;  // gradients in fp32, parameters in half of that
  const double parameters = static_cast<double>(plan.job.model.parameters());
  EXPECT_NEAR(bytes_out_of(graph_of(plan, cluster), 0), 0.5 * parameters * 4 + 0.5 * parameters * 2, 1e-3);
}

TEST(StepGradients, ParametersAreGatheredBesideTheForwardPassWhereTheJobSaysSo) {
  auto cluster = make_cluster({{"a", 2}}, 1e6);
  Plan plan = simple_plan(small_model(4), {"a0", "a1"}, 1, 2, 2);
  plan.job.framework = Framework::kMegatron;
  plan.job.sharding = Sharding::kOptimizer;
  const auto run = [&](bool beside) {
    plan.job.overlap_parameters = beside;
    StepGraph graph = graph_of(plan, cluster);
    graph.engine.run();
    return std::pair(graph.engine.finish(), bytes_out_of(graph, 0));
  };
  const auto [after_seconds, after_bytes] = run(false);
  const auto [beside_seconds, beside_bytes] = run(true);
  EXPECT_NEAR(beside_bytes, after_bytes, 1e-3) << "as much is sent";
  // At 1 MB/s all is waiting for the network: what hides is the first forward pass, but for the first layer's
  // parameters, which it waits for.
  const double layers = static_cast<double>(4 * plan.job.model.layer_parameters());
  EXPECT_LT(beside_seconds, after_seconds);
  const double forward =
      (plan.job.model.layer_forward_flops() * 4 + plan.job.model.head_forward_flops()) / 1e9;
  EXPECT_NEAR(after_seconds - beside_seconds, forward, 0.02 * forward);
  EXPECT_GT(0.5 * layers * 4 / 1e6, forward) << "the gather takes longer, or this says nothing";
  // On a fast network only the first layer's parameters are waited for.
  for (auto& link : cluster.links) link.bytes_per_second = 1e10;
  const double first =
      static_cast<double>(plan.job.model.layer_parameters() + plan.job.embedding_parameters());
  const double hidden = run(false).first - run(true).first;
  const double all = static_cast<double>(plan.job.model.parameters());
  EXPECT_NEAR(hidden, 0.5 * (all - first) * 4 / 1e10, 0.02 * hidden);
}

TEST(StepGradients, TheFirstAndTheLastStageExchangeTheTiedEmbedding) {
  const auto cluster = make_cluster({{"a", 2}}, 1e6);
  Plan plan = simple_plan(small_model(4), {"a0", "a1"}, 2, 1, 3);
  const double passes = 3 * plan.job.model.boundary_bytes();
  const double embedding = static_cast<double>(plan.job.model.token_embedding_parameters()) * 4;
  EXPECT_NEAR(bytes_out_of(graph_of(plan, cluster), 0), passes + embedding, 1e-6);
  EXPECT_NEAR(bytes_out_of(graph_of(plan, cluster), 1), passes + embedding, 1e-6);
  plan.job.model.tied_embeddings = false;
  EXPECT_NEAR(bytes_out_of(graph_of(plan, cluster), 0), passes, 1e-6);
}

}  // namespace
}  // namespace tombolo::planner
