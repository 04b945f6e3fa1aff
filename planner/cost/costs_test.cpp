#include "planner/cost/costs.h"

#include <gtest/gtest.h>

#include <random>

#include "base/error.h"
#include "base/randomized_test.h"
#include "planner/cost/slot_parameters.h"
#include "planner/testing/testing.h"

namespace tombolo::planner {
namespace {

using testing::make_cluster;
using testing::simple_plan;
using testing::small_model;

/// Hosts "a0" to "a3" with two devices of 1 GFLOP/s each, linked inside by 1 MB/s and 1 ms.
topology::ClusterFile hosts_of_two() {
  auto cluster = make_cluster({{"a", 4, 2}}, 1e8);
  for (auto& host : cluster.hosts)
    cluster.links.push_back({host.name, "eth", host.name, "eth", 1e6, 1e-3, true});
  return cluster;
}

SlotCosts costs_of(const Plan& plan, const topology::ClusterFile& cluster, const std::vector<int>& ranks) {
  return slot_costs(plan, ClusterView(cluster, "per-peer", {}), ranks);
}

TEST(SlotCosts, ABackwardPassIsTwoProductsForEachAndAttentionsCoreIsTheInputs) {
  const Plan plan = simple_plan(small_model(4), {"a0", "a1"}, 2, 1, 4, 3);
  const Model& model = plan.job.model;
  const double all = 3 * model.layer_forward_flops() / 1e9, core = 3 * model.attention_core_flops() / 1e9;
  const SlotCosts first = costs_of(plan, hosts_of_two(), {0}), last = costs_of(plan, hosts_of_two(), {1});
  EXPECT_DOUBLE_EQ(first.layer.forward, all);
  EXPECT_DOUBLE_EQ(first.layer.backward_weights, all - core);
  EXPECT_DOUBLE_EQ(first.layer.backward_input, all + core);
  EXPECT_EQ(first.head.both(), 0) << "the head is on the last stage";
  EXPECT_DOUBLE_EQ(last.head.both(), 3 * 3 * model.head_forward_flops() / 1e9);
  EXPECT_EQ(first.optimizer, 0) << "the memory's speed is unknown";
}

TEST(SlotCosts, OnTheBundledTrainersGpusOnlyFullRecomputationTakesTime) {
  Plan plan = simple_plan(small_model(4), {"a0", "a1"}, 2, 1, 4, 3);
  const auto backward = [&](TrainerDevice device, Recompute recompute) {
    plan.job.device = device;
    plan.job.recompute = recompute;
    return costs_of(plan, hosts_of_two(), {0}).layer.backward_input;
  };
  const Model& model = plan.job.model;
  const double none = backward(TrainerDevice::kCuda, Recompute::kNone);
  EXPECT_DOUBLE_EQ(backward(TrainerDevice::kCuda, Recompute::kSelective), none);
  EXPECT_DOUBLE_EQ(backward(TrainerDevice::kCuda, Recompute::kFull),
                   none + 3 * model.layer_forward_flops() / 1e9);
  EXPECT_DOUBLE_EQ(backward(TrainerDevice::kCpu, Recompute::kSelective),
                   none + 3 * model.attention_core_flops() / 1e9);
}

TEST(SlotCosts, TheUpdateOfAGpuMovesItsMomentsAndMaster) {
  auto cluster = hosts_of_two();
  for (auto& host : cluster.hosts)
    for (auto& device : host.devices) device.memory_bytes_per_second = 1e9;
  Plan plan = simple_plan(small_model(4), {"a0", "a1"}, 2, 1, 4, 3);
  plan.job.device = TrainerDevice::kCuda;
  const auto parameters = static_cast<double>(slot_parameters(plan, 0, 0));
  const auto bytes = [&] { return costs_of(plan, cluster, {0}).optimizer * 1e9 / parameters; };
  // Gradients are cleared, read for the norm and read again; parameter and moments are read and written.
  EXPECT_NEAR(bytes(), 3 * 4 + 2 * 4 + 2 * 8, 1e-6);
  plan.job.model.bytes_per_value = 2;
  EXPECT_NEAR(bytes(), 3 * 4 + 2 * 4 + 2 + 2 * 8, 1e-6) << "the bf16 copy is written";
  plan.job.moment_bytes = 2;
  EXPECT_NEAR(bytes(), 3 * 4 + 2 * 4 + 2 + 2 * 4, 1e-6);
}

TEST(SlotCosts, TensorParallelRanksDivideTheWorkAndSumActivationsByARing) {
  Plan plan = simple_plan(small_model(4), {"a0", "a0"}, 1, 1, 4, 2);
  plan.job.tensor = 2;
  plan.pipelines[0].stages = {{0, 4, 2}};
  plan.ranks[1].stage = 0;
  plan.ranks[1].tensor = 1;
  const Model& model = plan.job.model;
  const double half = 2 * model.layer_forward_flops() / 2 / 1e9;
  const double core = 2 * model.attention_core_flops() / 2 / 1e9;
  // 2 (t - 1) messages of 1 / t of the activations, each with its latency.
  const double ring = 2 * (2 * model.boundary_bytes() / 2 / 1e6 + 1e-3);
  const SlotCosts costs = costs_of(plan, hosts_of_two(), {0, 1});
  EXPECT_NEAR(costs.layer.forward, half + 2 * ring, 1e-12);
  EXPECT_NEAR(costs.layer.backward_input, half + core + 2 * ring, 1e-12);
  EXPECT_NEAR(costs.layer.backward_weights, half - core, 1e-12);
  EXPECT_NEAR(costs.head.backward_input - costs.head.forward, ring, 1e-12);
}

TEST(SlotCosts, TheSlowestRankDecides) {
  auto cluster = hosts_of_two();
  cluster.hosts[0].devices[1].flops_per_second = 2.5e8;
  Plan plan = simple_plan(small_model(4), {"a0", "a0"}, 1, 1, 4);
  plan.job.tensor = 2;
  plan.pipelines[0].stages = {{0, 4, 2}};
  plan.ranks[1].stage = 0;
  plan.ranks[1].tensor = 1;
  const double unlike = costs_of(plan, cluster, {0, 1}).layer.backward_weights;
  EXPECT_NEAR(unlike, 4 * costs_of(plan, hosts_of_two(), {0, 1}).layer.backward_weights, 1e-12);
}

TEST(SlotCosts, RecomputationAddsToTheGradientOfTheInput) {
  Plan plan = simple_plan(small_model(4), {"a0"}, 1, 1, 4);
  const PassSeconds none = costs_of(plan, hosts_of_two(), {0}).layer;
  plan.job.recompute = Recompute::kFull;
  const PassSeconds full = costs_of(plan, hosts_of_two(), {0}).layer;
  EXPECT_DOUBLE_EQ(full.backward_input - none.backward_input, none.forward);
  EXPECT_EQ(full.backward_weights, none.backward_weights);
  plan.job.recompute = Recompute::kSelective;
  EXPECT_NEAR(costs_of(plan, hosts_of_two(), {0}).layer.backward_input - none.backward_input,
              plan.job.model.attention_core_flops() / 1e9, 1e-15);
}

TEST(SlotCosts, TheOptimizerReadsAndWritesWhatAdamNeeds) {
  auto cluster = hosts_of_two();
  for (auto& host : cluster.hosts)
    for (auto& device : host.devices) device.memory_bytes_per_second = 1e9;
  Plan plan = simple_plan(small_model(4), {"a0", "a1"}, 1, 2, 4);
  const double parameters = static_cast<double>(slot_parameters(plan, 0, 0));
  // fp32: gradients twice before the step; then the parameter twice, the gradient once, both moments twice.
  EXPECT_NEAR(costs_of(plan, cluster, {0}).optimizer, parameters * (8 + 8 + 4 + 16) / 1e9, 1e-12);
  plan.job.framework = Framework::kMegatron;
  plan.job.sharding = Sharding::kOptimizer;
  EXPECT_NEAR(costs_of(plan, cluster, {0}).optimizer, parameters * (8 + (8 + 4 + 16) / 2.0) / 1e9, 1e-12);
  plan.job.sharding = Sharding::kNone;
  plan.job.model.bytes_per_value = 2;  // with a master copy, and gradients in fp32
  EXPECT_NEAR(costs_of(plan, cluster, {0}).optimizer, parameters * (8 + 4 + 4 + 16 + 8) / 1e9, 1e-12);
}

TEST(SlotCosts, AStageIsTheSumOfItsLayersAndItsEnds) {
  std::mt19937 random(test_seed());
  std::uniform_real_distribution<> seconds(0.1, 1);
  const auto pass = [&] { return PassSeconds{seconds(random), seconds(random), seconds(random)}; };
  SlotCosts costs;
  for (int layer = 0; layer < 10; ++layer) costs.layers.push_back(pass());
  costs.embedding = pass();
  costs.head = pass();
  for (int first = 0; first < 10; ++first) {
    const Stage stage{first, 10 - first};
    double sum = 0;
    for (int layer = first; layer < 10; ++layer) sum += costs.of_layer(layer).both();
    EXPECT_NEAR(costs.stage(stage, false, false).both(), sum, 1e-9);
    EXPECT_NEAR(costs.stage(stage, true, true).both(), sum + costs.embedding.both() + costs.head.both(),
                1e-9);
  }
  costs.layers.clear();
  costs.layer = {1, 2, 3};
  EXPECT_NEAR(costs.stage({4, 3}, false, false).both(), 3 * 6, 1e-9);
}

TEST(SlotCosts, NameADeviceOfUnknownSpeed) {
  auto cluster = hosts_of_two();
  cluster.hosts[0].devices[0].flops_per_second = 0;
  const Plan plan = simple_plan(small_model(4), {"a0"}, 1, 1, 4);
  try {
    costs_of(plan, cluster, {0});
    ADD_FAILURE() << "nothing was thrown";
  } catch (const Error& error) {
    EXPECT_NE(std::string(error.what()).find("device 0 of host a0"), std::string::npos) << error.what();
  }
}

TEST(SlotCosts, ProductsInFp8GoAtTheLibrarysPeakForThem) {
  auto cluster = hosts_of_two();
  Plan plan = simple_plan(small_model(4), {"a0", "a1"}, 2, 1, 4, 3);
  plan.job.framework = Framework::kMegatron;
  plan.job.model.bytes_per_value = 2;
  const auto name = [&](const char* device, double flops) {
    for (auto& host : cluster.hosts)
      for (auto& one : host.devices) {
        one.name = device;
        one.flops_per_second = flops;
      }
  };
  name("H100-SXM5-80GB", 6e14);
  const double core = 3 * plan.job.model.attention_core_flops() / 6e14;
  const SlotCosts bf16 = costs_of(plan, cluster, {1});
  plan.job.precision = Precision::kFp8Hybrid;
  const SlotCosts fp8 = costs_of(plan, cluster, {1});
  EXPECT_NEAR(fp8.layer.forward - core, (bf16.layer.forward - core) / 2, 1e-3 * bf16.layer.forward);
  EXPECT_EQ(fp8.head.both(), bf16.head.both()) << "the output projection stays as it is";
  for (const auto& [device, flops, part] :
       {std::tuple("A100-SXM4-80GB", 2e14, "no fp8 peak"), std::tuple("test", 2e14, "no fp8 peak"),
        std::tuple("H100-SXM5-80GB", 1.5e15, "more than its peak")}) {
    name(device, flops);
    try {
      costs_of(plan, cluster, {1});
      ADD_FAILURE() << device;
    } catch (const Error& error) {
      EXPECT_NE(std::string(error.what()).find(part), std::string::npos) << error.what();
    }
  }
}

TEST(SlotCosts, ReplicasThatDivideRowsOnOneHostExchangeOverItsLink) {
  auto cluster = hosts_of_two();
  Plan plan = simple_plan(small_model(4), {"a0", "a0", "a1", "a1"}, 1, 4, 2);
  plan.job.framework = Framework::kMegatron;
  plan.job.context_parallel = 2;
  const Model& model = plan.job.model;
  const auto forward = [&](int rank) { return costs_of(plan, cluster, {rank}).layer.forward; };
  const double work = model.layer_forward_flops() / 2 / 1e9, core = model.attention_core_flops() / 2 / 1e9;
  const auto shown = [&](double rate, double latency) {
    return std::max(0.0, 2 * model.boundary_bytes() / 2 / rate + latency - core / 2);
  };
  EXPECT_NEAR(forward(0), work + shown(1e6, 1e-3), 1e-12) << "inside a host";
  std::swap(plan.ranks[1].host, plan.ranks[2].host);
  EXPECT_NEAR(forward(0), work, 1e-12) << "between two it is sent among all else";
  // The slowest of both decides.
  cluster.hosts[1].devices[1].flops_per_second = 5e8;
  EXPECT_GT(forward(0), 1.9 * work);
  EXPECT_EQ(forward(0), forward(1));
  // A part of a plan has no peers: what it takes is a bound.
  plan.pipelines.resize(1);
  plan.ranks.resize(1);
  EXPECT_NEAR(forward(0), work, 1e-12);
}

TEST(SlotCosts, ReplicasThatDivideExpertsOnOneHostWaitForEachOther) {
  Plan plan = simple_plan(testing::mixture_model(4), {"a0", "a0", "a1", "a1"}, 1, 4, 4, 3);
  plan.job.framework = Framework::kMegatron;
  const auto cluster = hosts_of_two();
  const SlotCosts whole = costs_of(plan, cluster, {0});
  EXPECT_DOUBLE_EQ(whole.layer.forward, 3 * plan.job.model.layer_forward_flops(Mlp::kMixture) / 1e9);
  plan.job.expert_parallel = 2;
  const SlotCosts divided = costs_of(plan, cluster, {0});
  // Half of 3 rows of 32 tokens of 64 values for 2 experts goes to the other, there and back.
  const double exchange = 3.0 * 32 * 64 * 4 * 2 / 2 / 1e6 + 1e-3;
  EXPECT_NEAR(divided.expert_exchange_seconds, exchange, 1e-12);
  EXPECT_NEAR(divided.layer.forward - whole.layer.forward, 2 * exchange, 1e-12);
  EXPECT_NEAR(divided.layer.backward_input - whole.layer.backward_input, 2 * exchange, 1e-12);
  EXPECT_DOUBLE_EQ(divided.layer.backward_weights, whole.layer.backward_weights);
  plan.job.recompute = Recompute::kFull;
  EXPECT_NEAR(costs_of(plan, cluster, {0}).layer.backward() - divided.layer.backward(),
              whole.layer.forward + 2 * exchange, 1e-12);
  // Over hosts an exchange takes what else is sent into account, so it is none of a slot's own seconds.
  plan.job.recompute = Recompute::kNone;
  plan.job.expert_parallel = 4;
  const SlotCosts crossing = costs_of(plan, cluster, {0});
  EXPECT_TRUE(crossing.expert_exchange.crosses());
  EXPECT_DOUBLE_EQ(crossing.layer.forward, whole.layer.forward);
  EXPECT_EQ(crossing.expert_exchange_seconds, 0);
}

TEST(SlotCosts, DenseLayersAmongMixturesAreToldApart) {
  Plan plan = simple_plan(testing::mixture_model(4), {"a0"}, 1, 1, 4);
  Model& model = plan.job.model;
  model.dense_first = 1;
  plan.job.framework = Framework::kMegatron;
  const SlotCosts costs = costs_of(plan, hosts_of_two(), {0});
  EXPECT_DOUBLE_EQ(costs.of_layer(0).forward, model.layer_forward_flops() / 1e9);
  EXPECT_DOUBLE_EQ(costs.of_layer(1).forward, model.layer_forward_flops(Mlp::kMixture) / 1e9);
  EXPECT_DOUBLE_EQ(costs.stage({0, 4}, false, false).forward, model.layers_forward_flops() / 1e9);
}

TEST(SlotCosts, RanksThatShareALayerGatherTheCopiesOfEachToken) {
  Plan plan = simple_plan(testing::mixture_model(4), {"a0", "a0"}, 1, 1, 4, 3);
  plan.job.framework = Framework::kMegatron;
  plan.job.tensor = 2;
  plan.job.sequence_parallel = true;
  plan.pipelines[0].stages = {{0, 4, 2}};
  plan.ranks = {{"a0", 0, 0, 0, 0}, {"a0", 1, 0, 0, 1}};
  const Model& model = plan.job.model;
  // An all-reduce between two sends as much as there is; each of its two hops waits.
  const double reduce = 3 * model.boundary_bytes() / 1e6;
  EXPECT_NEAR(costs_of(plan, hosts_of_two(), {0, 1}).layer.forward,
              3 * model.layer_forward_flops(Mlp::kMixture) / 2 / 1e9 + (1 + 2) * reduce + 2 * 2e-3, 1e-9);
}

TEST(SlotCosts, OfTheFirstLayersOfAChunkAloneIncludeComputingThemAgain) {
  Plan plan = simple_plan(small_model(8), {"a0", "a1"}, 2, 1, 4);
  plan.job.framework = Framework::kMegatron;
  plan.job.recompute = Recompute::kFull;
  const PassSeconds full = costs_of(plan, hosts_of_two(), {1}).layer;
  plan.job.recompute = Recompute::kNone;
  const PassSeconds none = costs_of(plan, hosts_of_two(), {1}).layer;
  plan.job.recompute = Recompute::kFull;
  plan.job.recompute_layers = 3;
  const SlotCosts some = costs_of(plan, hosts_of_two(), {1});
  for (int layer = 4; layer < 8; ++layer)
    EXPECT_EQ(some.of_layer(layer).backward_input, (layer < 7 ? full : none).backward_input) << layer;
  EXPECT_NEAR(some.stage({4, 4}, false, false).both(), 3 * full.both() + none.both(), 1e-12);
}

}  // namespace
}  // namespace tombolo::planner
