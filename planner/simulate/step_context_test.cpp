#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <vector>

#include "planner/cost/costs.h"
#include "planner/search/search.h"
#include "planner/simulate/step_graph.h"
#include "planner/testing/testing.h"

namespace tombolo::planner {
namespace {

using testing::make_cluster;
using testing::simple_plan;
using testing::small_model;

constexpr double kRowRate = 1e6, kRowLatency = 1e-3, kRowFlops = 1e9;

topology::ClusterFile row_hosts(int hosts, int devices) {
  auto cluster = make_cluster({{"a", hosts, devices}}, kRowRate, kRowLatency);
  for (auto& host : cluster.hosts) {
    for (auto& device : host.devices) device.kind = topology::DeviceKind::kGpu;
    cluster.links.push_back({host.name, "eth", host.name, "eth", 10 * kRowRate, kRowLatency / 10, true});
  }
  return cluster;
}

/// One stage in replicas, of which `divided` in a row divide rows' tokens.
Plan dividing(const std::vector<std::string>& hosts, int divided, ContextExchange exchange) {
  Plan plan = simple_plan(small_model(4), hosts, 1, static_cast<int>(hosts.size()), 3);
  plan.job.framework = Framework::kMegatron;
  plan.job.context_parallel = divided;
  plan.job.context_exchange = exchange;
  plan.job.overlap_gradients = false;  // or exchanges would share links with these
  return plan;
}

/// When the last backward pass ends.
double passes_end(const Plan& plan, const topology::ClusterFile& cluster) {
  StepGraph graph = build_step(plan, ClusterView(cluster, plan.routing, {}), 1);
  graph.engine.run();
  double end = 0;
  for (const Bar& bar : graph.bars)
    if (bar.kind == Bar::Kind::kBackward) end = std::max(end, graph.engine.end(bar.last));
  return end;
}

/// The seconds in which a plan's passes wait, beyond computing.
double waits(const Plan& plan, const topology::ClusterFile& cluster) {
  const Model& model = plan.job.model;
  const double flops =
      (model.layers_forward_flops() + model.head_forward_flops()) / plan.job.context_parallel;
  return passes_end(plan, cluster) - plan.micro_batches() * 3 * flops / kRowFlops;
}

TEST(StepContext, GroupsThatSendThroughOneNicShareIt) {
  for (const ContextExchange exchange : {ContextExchange::kRing, ContextExchange::kAllToAll}) {
    auto cluster = row_hosts(2, 2);
    for (auto& link : cluster.links) link.latency_seconds = 0;
    const double alone = waits(dividing({"a0", "a1"}, 2, exchange), cluster);
    // Both groups have one member on each host.
    const double both = waits(dividing({"a0", "a1", "a0", "a1"}, 2, exchange), cluster);
    EXPECT_GT(alone, 0);
    EXPECT_GT(both, 1.7 * alone) << context_exchange_name(exchange);
    EXPECT_LT(both, 3 * alone) << context_exchange_name(exchange);
  }
}

TEST(StepContext, MembersOfOneHostSendAnAllToAllThroughItsNicTogether) {
  const auto cluster = row_hosts(2, 2);
  const Plan plan = dividing({"a0", "a0", "a1", "a1"}, 4, ContextExchange::kAllToAll);
  // Queries, keys, values and outputs: two members each send two others a quarter of theirs.
  const double bytes = 4 * plan.job.model.boundary_bytes() / 4 / 4 * 2 * 2;
  const int exchanges = plan.micro_batches() * plan.job.model.layers * 2;
  EXPECT_NEAR(waits(plan, cluster), exchanges * (bytes / kRowRate + 4 * kRowLatency), 1e-9);
}

TEST(StepContext, ARingHidesBehindAttentionButForTheGradientsLastWay) {
  auto cluster = row_hosts(2, 1);
  Plan plan = dividing({"a0", "a1"}, 2, ContextExchange::kRing);
  const Model& model = plan.job.model;
  const double block = 2 * model.boundary_bytes() / 2;
  const double core = model.attention_core_flops() / 2 / kRowFlops, hop = block / kRowRate + kRowLatency;
  const int passes = plan.micro_batches() * model.layers;
  ASSERT_GT(hop, core) << "or nothing shows";
  EXPECT_NEAR(waits(plan, cluster), passes * (hop - core / 2 + 2 * hop - 2 * core / 2 + hop), 1e-9);
  for (auto& link : cluster.links) {
    link.bytes_per_second *= 1e3;
    link.latency_seconds = 0;
  }
  EXPECT_NEAR(waits(plan, cluster), passes * block / kRowRate / 1e3, 1e-9);
  plan.job.recompute = Recompute::kFull;
  EXPECT_GE(passes_end(plan, cluster), plan.micro_batches() *
                                           (3 * (model.layers_forward_flops() + model.head_forward_flops()) +
                                            model.layers_forward_flops()) /
                                           2 / kRowFlops);
}

// The next block is on its way while attention to the one before is computed, and so is its latency.
TEST(StepContext, ARingBetweenHostsShowsWhatOneInsideAHostDoes) {
  for (const double rate : {1e5, 1e6, 1e9})
    for (const double latency : {0.0, 1e-5, 1e-4, 1e-3, 1e-2}) {
      auto cluster = row_hosts(2, 1);
      for (auto& link : cluster.links) {
        link.bytes_per_second = rate;
        link.latency_seconds = latency;
      }
      const Plan plan = dividing({"a0", "a1"}, 2, ContextExchange::kRing);
      const double core = plan.job.model.attention_core_flops() / 2 / kRowFlops;
      LayerGroup group{1};
      group.context = {2, 1 / rate, latency};
      const ContextSeconds inside = context_seconds(plan.job, group, 1, core, 2 * core);
      EXPECT_NEAR(waits(plan, cluster),
                  plan.micro_batches() * plan.job.model.layers * (inside.forward + inside.backward), 1e-9)
          << rate << " bytes per second, " << latency << " s; attention takes " << core << " s";
    }
}

TEST(StepContext, IsNoneOfASlotsOwnSecondsBetweenHostsSoThatBoundsHold) {
  const auto cluster = row_hosts(2, 2);
  for (const ContextExchange exchange : {ContextExchange::kRing, ContextExchange::kAllToAll}) {
    const Plan plan = dividing({"a0", "a1", "a0", "a1"}, 2, exchange);
    const ClusterView view(cluster, plan.routing, {});
    const SlotCosts costs = slot_costs(plan, view, {0});
    EXPECT_TRUE(costs.context.crosses());
    EXPECT_DOUBLE_EQ(costs.layer.forward, plan.job.model.layer_forward_flops() / 2 / kRowFlops);
    EXPECT_LE(lower_bound(plan, view), passes_end(plan, cluster));
  }
}

}  // namespace
}  // namespace tombolo::planner
