#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "base/error.h"
#include "base/randomized_test.h"
#include "planner/search/search.h"
#include "planner/simulate/step_graph.h"
#include "planner/testing/testing.h"

namespace tombolo::planner {
namespace {

using testing::make_cluster;
using testing::simple_plan;
using testing::small_model;

/// One stage in replicas on hosts of their own, values of 2 bytes and gradients of 4.
Plan replicas(int count, int micro_batches, Framework framework, Sharding sharding, int layers = 4) {
  std::vector<std::string> hosts;
  for (int host = 0; host < count; ++host) hosts.push_back("a" + std::to_string(host));
  Plan plan = simple_plan(small_model(layers), hosts, 1, count, micro_batches);
  plan.job.framework = framework;
  plan.job.sharding = sharding;
  plan.job.model.bytes_per_value = 2;
  plan.job.model.tied_embeddings = false;
  return plan;
}

struct Seen {
  double seconds = 0, bytes = 0;  ///< bytes: out of the first host
};
Seen run(const Plan& plan, const topology::ClusterFile& cluster) {
  StepGraph graph = build_step(plan, ClusterView(cluster, plan.routing, {}), 1);
  graph.engine.run();
  Seen result{graph.engine.finish()};
  for (const Flow& flow : graph.flows)
    if (flow.from_host == 0) result.bytes += flow.bytes;
  return result;
}

/// The parameters that the first backward pass after a forward pass finds gathered.
double last_layer_and_head(const Model& model) {
  return static_cast<double>(model.layer_parameters() + model.norm_parameters() +
                             model.token_embedding_parameters());
}

TEST(StepSharding, SendsWhatEachStageOfZeroDoes) {
  constexpr int kReplicas = 3, kMicroBatches = 5;
  const auto cluster = make_cluster({{"a", kReplicas}}, 1e6);
  const double ring = (kReplicas - 1.0) / kReplicas;
  const auto bytes = [&](Framework framework, Sharding sharding) {
    return run(replicas(kReplicas, kMicroBatches, framework, sharding), cluster).bytes;
  };
  const Model model = replicas(kReplicas, 1, Framework::kAny, Sharding::kNone).job.model;
  const auto all = static_cast<double>(model.parameters());
  EXPECT_NEAR(bytes(Framework::kAny, Sharding::kNone), ring * 8 * all, 1);
  EXPECT_NEAR(bytes(Framework::kAny, Sharding::kOptimizer), ring * (4 + 2) * all, 1);
  EXPECT_NEAR(bytes(Framework::kDeepSpeed, Sharding::kGradients), ring * (kMicroBatches * 4 + 2) * all, 1);
  EXPECT_NEAR(bytes(Framework::kTorchTitan, Sharding::kGradients), ring * kMicroBatches * (4 + 2) * all, 1);
  EXPECT_NEAR(bytes(Framework::kDeepSpeed, Sharding::kParameters),
              ring * kMicroBatches * ((4 + 2 + 2) * all - 2 * last_layer_and_head(model)), 1);
}

TEST(StepSharding, HidesBehindComputingAllButTheFirstGatherAndTheLastScatter) {
  const auto cluster = make_cluster({{"a", 2}}, 1e9);
  Plan plan = replicas(2, 3, Framework::kDeepSpeed, Sharding::kParameters);
  const Model& model = plan.job.model;
  const double computing = 3 * 3 * (4 * model.layer_forward_flops() + model.head_forward_flops()) / 1e9;
  const auto first = static_cast<double>(model.layer_parameters() + model.embedding_parameters());
  EXPECT_NEAR(run(plan, cluster).seconds, computing + 0.5 * first * (2 + 4) / 1e9, 1e-9);
  // What does not go beside the backward pass comes after each.
  plan.job.overlap_gradients = false;
  EXPECT_NEAR(run(plan, cluster).seconds,
              computing + (0.5 * first * 2 + 3 * 0.5 * static_cast<double>(model.parameters()) * 4) / 1e9,
              1e-9);
}

TEST(StepSharding, TakesAsLongAsTheNetworkWhereThatIsSlower) {
  auto cluster = make_cluster({{"a", 2}}, 1e6);
  for (auto& host : cluster.hosts) host.devices[0].flops_per_second = 1e15;
  for (const auto& [framework, sharding] : {std::pair(Framework::kDeepSpeed, Sharding::kParameters),
                                            std::pair(Framework::kTorchTitan, Sharding::kGradients),
                                            std::pair(Framework::kDeepSpeed, Sharding::kGradients)}) {
    const Seen seen = run(replicas(2, 3, framework, sharding), cluster);
    EXPECT_NEAR(seen.seconds, seen.bytes / 1e6, 1e-3 * seen.seconds);
  }
}

// One forward pass of k equal layers that each take c, and g to gather: g + (k - 1) max(g, c) + c, then the
// last layer's backward pass needs no gather.
TEST(StepSharding, AForwardPassIsThatOfTwoBuffers) {
  for (const double rate : {1e5, 2e6, 5e6, 1e9}) {
    const auto cluster = make_cluster({{"a", 2}}, rate);
    Plan plan = replicas(2, 1, Framework::kDeepSpeed, Sharding::kParameters, 6);
    const Model& model = plan.job.model;
    StepGraph graph = build_step(plan, ClusterView(cluster, plan.routing, {}), 1);
    graph.engine.run();
    double end = 0;
    for (const Bar& bar : graph.bars)
      if (bar.kind == Bar::Kind::kForward) end = std::max(end, graph.engine.end(bar.last));
    const double c = model.layer_forward_flops() / 1e9, head = model.head_forward_flops() / 1e9;
    const double g = 0.5 * static_cast<double>(model.layer_parameters()) * 2 / rate;
    const double embedding = 0.5 * static_cast<double>(model.embedding_parameters()) * 2 / rate;
    const double output =
        0.5 * static_cast<double>(model.token_embedding_parameters() + model.norm_parameters()) * 2 / rate;
    EXPECT_NEAR(end, embedding + g + std::max(5 * c, 5 * g + output) + c + head, 1e-9) << rate;
  }
}

TEST(StepSharding, NeitherComputingNorTheNetworkTakesLongerThanTheStep) {
  std::mt19937_64 random(test_seed());
  const auto below = [&](int count) {
    return static_cast<int>(random() % static_cast<std::uint64_t>(count));
  };
  for (int round = 0; round < test_rounds(60); ++round) {
    const int count = 2 + below(3), stages = 1 + below(3), layers = stages * (1 + below(3));
    const double rate = 1e5 * std::pow(10.0, below(400) / 100.0);
    const auto cluster = make_cluster({{"a", count * stages}}, rate, below(2) * 1e-5);
    std::vector<std::string> hosts;
    for (int host = 0; host < count * stages; ++host) hosts.push_back("a" + std::to_string(host));
    Plan plan = simple_plan(small_model(layers), hosts, stages, count, 1 + below(6));
    plan.job.framework = Framework::kAny;
    plan.job.model.tied_embeddings = below(2) == 0;
    plan.job.sharding = below(2) == 0 ? Sharding::kGradients : Sharding::kParameters;
    plan.job.overlap_parameters = below(2) == 0;
    plan.job.overlap_gradients = below(4) != 0;
    plan.job.schedule = std::array{Schedule::kGPipe, Schedule::kOneForwardOneBackward,
                                   Schedule::kZeroBubbleH1}[static_cast<std::size_t>(below(3))];
    const ClusterView view(cluster, plan.routing, {});
    StepGraph graph = build_step(plan, view, 1);
    graph.engine.run();
    const double seconds = graph.engine.finish();
    EXPECT_LE(lower_bound(plan, view), seconds * (1 + 1e-9)) << "round " << round;
    double busiest = 0;
    for (const auto& host : cluster.hosts) {
      double out = 0;
      for (const Flow& flow : graph.flows)
        if (flow.from_host == view.host_index(host.name)) out += flow.bytes;
      busiest = std::max(busiest, out / rate);
    }
    EXPECT_LE(busiest, seconds * (1 + 1e-9)) << "round " << round;
  }
}

TEST(StepSharding, RefusesReplicasThatDiffer) {
  const auto cluster = make_cluster({{"a", 4}}, 1e6);
  Plan plan = simple_plan(small_model(4), {"a0", "a1", "a2", "a3"}, 2, 2, 4);
  plan.job.framework = Framework::kAny;
  plan.job.sharding = Sharding::kGradients;
  EXPECT_NO_THROW(run(plan, cluster));
  plan.pipelines[1].stages = to_stages({1, 3});
  EXPECT_THROW(run(plan, cluster), Error);
}

}  // namespace
}  // namespace tombolo::planner
