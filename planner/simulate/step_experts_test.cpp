#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include "base/error.h"
#include "planner/search/search.h"
#include "planner/simulate/simulator.h"
#include "planner/simulate/step_graph.h"
#include "planner/testing/testing.h"

namespace tombolo::planner {
namespace {

using testing::make_cluster;
using testing::mixture_model;
using testing::simple_plan;

constexpr double kLinkRate = 1e6, kLinkLatency = 1e-3, kDeviceFlops = 1e9;

/// One stage in replicas on so many hosts, equally many on each, of which `divided` divide the experts.
Plan expert_replicas(int hosts, int on_each, int divided, int micro_batches, int layers = 3) {
  std::vector<std::string> names;
  for (int host = 0; host < hosts; ++host)
    names.insert(names.end(), static_cast<std::size_t>(on_each), "a" + std::to_string(host));
  Plan plan = simple_plan(mixture_model(layers), names, 1, hosts * on_each, micro_batches);
  plan.job.framework = Framework::kMegatron;
  plan.job.expert_parallel = divided;
  plan.job.overlap_gradients = false;  // or exchanges would share links with these
  return plan;
}

topology::ClusterFile linked_hosts(int hosts, int devices) {
  auto cluster = make_cluster({{"a", hosts, devices}}, kLinkRate, kLinkLatency);
  for (auto& host : cluster.hosts) {
    for (auto& device : host.devices) device.kind = topology::DeviceKind::kGpu;
    cluster.links.push_back({host.name, "eth", host.name, "eth", 10 * kLinkRate, kLinkLatency / 10, true});
  }
  return cluster;
}

/// What a replica sends in all of one all-to-all, its own part included.
double exchanged_bytes(const Plan& plan) {
  const Model& model = plan.job.model;
  return model.boundary_bytes() * plan.job.micro_batch * model.experts_per_token;
}

struct ExchangesSeen {
  double bytes = 0;         ///< over all links
  double backward_end = 0;  ///< of the last backward pass
  int exchanges = 0;        ///< bars of all ranks
};
ExchangesSeen run_exchanges(const Plan& plan, const topology::ClusterFile& cluster) {
  StepGraph graph = build_step(plan, ClusterView(cluster, plan.routing, {}), 1);
  graph.engine.run();
  ExchangesSeen seen;
  for (const Flow& flow : graph.flows) seen.bytes += flow.bytes;
  for (const Bar& bar : graph.bars) {
    if (bar.kind == Bar::Kind::kBackward)
      seen.backward_end = std::max(seen.backward_end, graph.engine.end(bar.last));
    seen.exchanges += bar.kind == Bar::Kind::kExchange;
  }
  return seen;
}

double computing_seconds(const Plan& plan) {
  const Model& model = plan.job.model;
  const double forward = model.layers_forward_flops() + model.head_forward_flops();
  return plan.micro_batches() *
         (plan.job.recompute == Recompute::kFull ? 3 * forward + model.layers_forward_flops() : 3 * forward) /
         kDeviceFlops;
}

TEST(StepExperts, ExchangesBetweenHostsAreOnTheirLinksInEveryMixture) {
  constexpr int kMicroBatches = 5, kLayers = 3;
  const auto cluster = linked_hosts(2, 1);
  Plan plan = expert_replicas(2, 1, 2, kMicroBatches, kLayers);
  const auto others = static_cast<double>(plan.job.model.parameters()) -
                      kLayers * 4.0 * static_cast<double>(plan.job.model.expert_parameters());
  const auto expected = [&](int in_all, int mixtures) {
    // Two all-reduce what both hold; of the experts no two hold the same.
    return 2 * (others * 4 + kMicroBatches * mixtures * in_all * exchanged_bytes(plan) / 2);
  };
  const ExchangesSeen seen = run_exchanges(plan, cluster);
  EXPECT_NEAR(seen.bytes, expected(4, kLayers), 1);
  EXPECT_EQ(seen.exchanges, 2 * kMicroBatches * kLayers * 2);
  const double one = exchanged_bytes(plan) / 2 / kLinkRate + kLinkLatency;
  EXPECT_NEAR(seen.backward_end, computing_seconds(plan) + kMicroBatches * kLayers * 4 * one, 1e-9);
  // What computes the forward pass again sends it again.
  plan.job.recompute = Recompute::kFull;
  const ExchangesSeen again = run_exchanges(plan, cluster);
  EXPECT_NEAR(again.bytes, expected(6, kLayers), 1);
  EXPECT_NEAR(again.backward_end, computing_seconds(plan) + kMicroBatches * kLayers * 6 * one, 1e-9);
}

TEST(StepExperts, DenseLayersExchangeNothing) {
  Plan plan = expert_replicas(2, 1, 2, 2, 5);
  plan.job.model.dense_first = 1;
  plan.job.model.moe_every = 2;  // layers 1 and 3 are mixtures
  const ExchangesSeen seen = run_exchanges(plan, linked_hosts(2, 1));
  EXPECT_EQ(seen.exchanges, 2 * 2 * 2 * 2);
  const double one = exchanged_bytes(plan) / 2 / kLinkRate + kLinkLatency;
  EXPECT_NEAR(seen.backward_end, computing_seconds(plan) + 2 * 2 * 4 * one, 1e-9);
}

TEST(StepExperts, InsideAHostTheyTakeTheTimeOfTheLayersAndNoLink) {
  constexpr int kMicroBatches = 3, kLayers = 3;
  const auto cluster = linked_hosts(1, 2);
  const Plan plan = expert_replicas(1, 2, 2, kMicroBatches, kLayers);
  const ExchangesSeen seen = run_exchanges(plan, cluster);
  EXPECT_EQ(seen.bytes, 0);
  const double one = exchanged_bytes(plan) / 2 / (10 * kLinkRate) + kLinkLatency / 10;
  EXPECT_NEAR(seen.backward_end, computing_seconds(plan) + kMicroBatches * kLayers * 4 * one, 1e-9);
  // The timeline shows them in each layer all the same, and they are no computing.
  const Simulation simulation = simulate(plan, cluster, {});
  double waited = 0;
  int waits = 0;
  for (const Span& span : simulation.spans) {
    if (span.rank != 0 || span.name != "all-to-all") continue;
    waited += span.end_seconds - span.begin_seconds;
    ++waits;
  }
  EXPECT_EQ(waits, kMicroBatches * 2 * kLayers);
  EXPECT_NEAR(waited, kMicroBatches * kLayers * 4 * one, 1e-9);
  EXPECT_NEAR(busy_seconds(simulation, plan)[0], computing_seconds(plan), 1e-9);
  EXPECT_NEAR(simulation.bubble_fraction, 1 - computing_seconds(plan) / simulation.step_seconds, 1e-9);
}

TEST(StepExperts, GradientsOfExpertsAreReducedAmongThoseThatHoldTheSame) {
  // Four replicas, of which two each divide the experts: 0 and 1, 2 and 3.
  const auto cluster = linked_hosts(4, 1);
  Plan plan = expert_replicas(4, 1, 2, 2);
  const Model& model = plan.job.model;
  const double experts = 3 * 2.0 * static_cast<double>(model.expert_parameters());  // on each
  const double others = static_cast<double>(model.parameters()) - 2 * experts;
  const double exchanges = 4 * 2 * 3 * 4 * exchanged_bytes(plan) / 2;
  EXPECT_NEAR(run_exchanges(plan, cluster).bytes, exchanges + 4 * 4 * (2 * 3 / 4.0 * others + experts), 1);
  plan.job.sharding = Sharding::kOptimizer;  // scattered, and gathered in as many bytes
  EXPECT_NEAR(run_exchanges(plan, cluster).bytes, exchanges + 4 * 4 * (2 * 3 / 4.0 * others + experts), 1);
  plan.job.overlap_parameters = true;
  EXPECT_NEAR(run_exchanges(plan, cluster).bytes, exchanges + 4 * 4 * (2 * 3 / 4.0 * others + experts), 1);
  plan.job.expert_parallel = 4;
  EXPECT_NEAR(run_exchanges(plan, cluster).bytes,
              4 * 2 * 3 * 4 * exchanged_bytes(plan) * 3 / 4 + 4 * 4 * 2 * 3 / 4.0 * others, 1);
}

TEST(StepExperts, SharedParametersOfExpertsAreGatheredAmongThoseThatHoldTheSame) {
  const auto cluster = linked_hosts(4, 1);
  Plan plan = expert_replicas(4, 1, 2, 2);
  plan.job.framework = Framework::kTorchTitan;
  plan.job.sharding = Sharding::kParameters;
  plan.job.model.tied_embeddings = false;
  const Model& model = plan.job.model;
  const double experts = 2.0 * static_cast<double>(model.expert_parameters());  // of a layer, on each
  const double layer = static_cast<double>(model.layer_parameters(1, Mlp::kMixture)) - 2 * experts;
  const double others = 3 * layer + static_cast<double>(model.end_parameters(true, true));
  const double head = static_cast<double>(model.end_parameters(false, true));
  // Forward all, backward all but the last layer and the head, and all gradients.
  const double each = 3 / 4.0 * (3 * others - layer - head) + 1 / 2.0 * (3 * 3 - 1) * experts;
  EXPECT_NEAR(run_exchanges(plan, cluster).bytes, 2 * (4 * 4 * each + 4 * 3 * 4 * exchanged_bytes(plan) / 2),
              1);
}

TEST(StepExperts, NoStepTakesLessThanItsBound) {
  for (const auto& [hosts, on_each, divided] :
       {std::tuple{1, 4, 4}, std::tuple{2, 2, 2}, std::tuple{2, 2, 4}, std::tuple{4, 1, 2}}) {
    const auto cluster = linked_hosts(hosts, on_each);
    const Plan plan = expert_replicas(hosts, on_each, divided, 3);
    const double bound = lower_bound(plan, ClusterView(cluster, "per-peer", {}));
    EXPECT_LE(bound, simulate(plan, cluster, {}).step_seconds * (1 + 1e-12)) << hosts << ' ' << divided;
    EXPECT_GT(bound, 0.9 * computing_seconds(plan));
  }
}

TEST(StepExperts, RefusesReplicasThatCannotDivideThem) {
  const auto cluster = linked_hosts(3, 1);
  EXPECT_THROW(simulate(expert_replicas(3, 1, 2, 2), cluster, {}), Error);
  Plan uneven = expert_replicas(2, 1, 2, 2);
  uneven.pipelines[0].rows = 1;
  uneven.pipelines[1].rows = 3;
  EXPECT_THROW(simulate(uneven, cluster, {}), Error);
}

TEST(StepExperts, ARingMeetsEquallyOftenThoughSomeDivideExpertsAcrossHostsAndOthersOnOne) {
  const auto cluster = linked_hosts(3, 2);
  Plan plan = expert_replicas(1, 4, 2, 2);
  plan.job.context_parallel = 4;
  for (int rank = 0; rank < 4; ++rank)
    plan.ranks[static_cast<std::size_t>(rank)] = {rank < 2 ? "a0" : "a" + std::to_string(rank - 1),
                                                  rank < 2 ? rank : 0, 0, rank};
  StepGraph graph = build_step(plan, ClusterView(cluster, plan.routing, {}), 1);
  graph.engine.run();
  EXPECT_GT(graph.engine.finish(), 0);
  std::vector<int> rounds(4);
  for (const Bar& bar : graph.bars)
    if (bar.kind == Bar::Kind::kRing) ++rounds[static_cast<std::size_t>(bar.rank)];
  EXPECT_GT(rounds[0], 0);
  EXPECT_EQ(rounds, std::vector<int>(4, rounds[0]));
}

}  // namespace
}  // namespace tombolo::planner
