#include <gtest/gtest.h>

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
  const Plan plan = simple_plan(small_model(4), {"a0", "a1", "a2"}, 1, 3, 2);
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
