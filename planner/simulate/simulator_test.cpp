#include "planner/simulate/simulator.h"

#include <gtest/gtest.h>

#include <map>
#include <nlohmann/json.hpp>
#include <random>

#include "base/error.h"
#include "base/randomized_test.h"
#include "planner/cost/costs.h"
#include "planner/plan/cluster_view.h"
#include "planner/simulate/step_graph.h"
#include "planner/testing/testing.h"
#include "planner/testing/testing_steps.h"

namespace tombolo::planner {
namespace {

using testing::make_cluster;
using testing::simple_plan;
using testing::small_model;
using topology::NicKind;

constexpr double kFree = 1e18;  // bytes per second: a network that costs nothing

struct Times {
  double forward, backward;
};

Times stage_times(const Plan& plan, const topology::ClusterFile& cluster, int rank) {
  const ClusterView view(cluster, plan.routing, hosts_of(plan));
  const RankPlacement& place = plan.ranks[static_cast<std::size_t>(rank)];
  const PassSeconds seconds =
      slot_costs(plan, view, {rank})
          .stage(plan.stage(place.stage), place.stage == 0, place.stage + 1 == plan.pipeline_size());
  return {seconds.forward, seconds.backward()};
}

/// A model whose output projection is so small that all stages cost the same within 1e-5.
Model without_head(int layers) {
  Model model = small_model(layers);
  model.hidden = 4096;
  model.context = 4096;
  model.vocabulary = 1;
  return model;
}

double bytes_between(const Simulation& simulation, const std::string& from, const std::string& to) {
  double sum = 0;
  for (const LinkBytes& link : simulation.links)
    if (link.from_host == from && link.to_host == to) sum += link.bytes;
  return sum;
}

/// The same reduced by NCCL, which takes what the links take; the engine's messages and sums have a time of
/// their own besides.
Plan by_nccl(Plan plan) {
  plan.job.framework = Framework::kMegatron;
  return plan;
}

/// Two pipelines from cluster a to b whose transfers are all that takes time.
Simulation crossing_pairs(double shared_rate) {
  auto cluster = make_cluster({{"a", 2}, {"b", 2}}, 1e6);
  for (auto& host : cluster.hosts) host.devices[0].flops_per_second = 1e18;
  for (auto& link : cluster.links)
    if (link.from_host[0] == link.to_host[0]) link.bytes_per_second = kFree;
  if (shared_rate > 0) {
    cluster.shared_links = {
        {"a to b", {{"a0", "eth"}, {"a1", "eth"}}, {{"b0", "eth"}, {"b1", "eth"}}, shared_rate},
        {"b to a", {{"b0", "eth"}, {"b1", "eth"}}, {{"a0", "eth"}, {"a1", "eth"}}, shared_rate}};
  }
  return simulate(by_nccl(simple_plan(small_model(4), {"a0", "a1", "b0", "b1"}, 2, 2, 1)), cluster);
}

TEST(Simulator, TransfersOverASharedLinkHalveEachOther) {
  const Simulation own = crossing_pairs(0), shared = crossing_pairs(1e6), wide = crossing_pairs(2e6);
  EXPECT_NEAR(shared.step_seconds, 2 * own.step_seconds, 1e-6 * own.step_seconds);
  EXPECT_NEAR(wide.step_seconds, own.step_seconds, 1e-6 * own.step_seconds);
  EXPECT_TRUE(own.shared.empty());
  ASSERT_EQ(shared.shared.size(), 2u);
  EXPECT_EQ(shared.shared[0].name, "a to b");
  EXPECT_DOUBLE_EQ(shared.shared[0].bytes,
                   bytes_between(shared, "a0", "b0") + bytes_between(shared, "a1", "b1"));
  EXPECT_GT(shared.shared[0].bytes, 0);
  EXPECT_GE(shared.step_seconds, shared.shared[0].bytes / 1e6);
}

TEST(Simulator, ATokenBucketGivesItsBurstAwayWhereItIsWhatLimits) {
  Model model = small_model(2);
  model.tied_embeddings = false;
  const Plan plan = by_nccl(simple_plan(model, {"a0", "b0"}, 2, 1, 1));
  const double sent = plan.job.boundary_bytes(0), rate = 1e6, burst = 0.25 * sent;
  const auto step = [&](double burst_bytes, std::uint64_t nominal_bits) {
    auto cluster = make_cluster({{"a"}, {"b"}}, rate);
    for (auto& host : cluster.hosts) {
      host.devices[0].flops_per_second = 1e18;
      host.nics[0].burst_bytes = burst_bytes;
      host.nics[0].rate_bits_per_second = nominal_bits;
    }
    return simulate(plan, cluster).step_seconds;
  };
  EXPECT_NEAR(step(0, 8'000'000), 2 * sent / rate, 1e-6);
  EXPECT_NEAR(step(burst, 8'000'000), 2 * (sent - burst) / rate, 1e-6);
  EXPECT_NEAR(step(burst, 0), 2 * (sent - burst) / rate, 1e-6);
  EXPECT_NEAR(step(burst, 80'000'000), 2 * sent / rate, 1e-6) << "its NIC could do ten times as much";
}

TEST(Simulator, OneRankTakesItsComputeTime) {
  const auto cluster = make_cluster({{"a"}}, 1e6);
  const Plan plan = simple_plan(small_model(4), {"a0"}, 1, 1, 8, 2);
  const Model& model = plan.job.model;
  const double flops = 3 * (4 * model.layer_forward_flops() + model.head_forward_flops()) * 16;
  const Simulation simulation = simulate(plan, cluster);
  EXPECT_NEAR(simulation.step_seconds, flops / 1e9, 1e-12 * flops);
  EXPECT_NEAR(simulation.bubble_fraction, 0, 1e-12);
}

TEST(Simulator, EqualStagesOnAFreeNetworkGiveTheClosedFormOf1F1B) {
  const auto cluster = make_cluster({{"a", 8}}, kFree);
  for (const int stages : {2, 4, 8})
    for (const int micro_batches : {1, 2, 3, 8, 21}) {
      std::vector<std::string> hosts;
      for (int i = 0; i < stages; ++i) hosts.push_back(fmt::format("a{}", i));
      const Plan plan = simple_plan(without_head(8), hosts, stages, 1, micro_batches);
      const Times times = stage_times(plan, cluster, 0);
      const double expected = (micro_batches + stages - 1) * (times.forward + times.backward);
      const Simulation simulation = simulate(plan, cluster);
      EXPECT_NEAR(simulation.step_seconds / expected, 1, 5e-5) << stages << " stages, " << micro_batches;
      EXPECT_NEAR(simulation.bubble_fraction, (stages - 1.0) / (micro_batches + stages - 1), 5e-5);
    }
}

TEST(Simulator, SlowTransfersShowTheHiddenCriticalPathThatPipetteFound) {
  // Every `stages` micro-batches pay one more round trip through the pipeline: with g = micro-batches /
  // stages, T = g (C + pp (f + b)) + (pp - 1)(f + b), C being the transfers of one round trip. Two stages,
  // where the formula is exact up to one round trip at the ends.
  const double speed = 4e9;
  const auto cluster = make_cluster({{"a", 2}}, speed);
  const Plan plan = simple_plan(without_head(8), {"a0", "a1"}, 2, 1, 64);
  Model model = plan.job.model;
  const Times times = stage_times(plan, cluster, 0);
  const double transfer = model.boundary_bytes() / speed;
  // A transfer that is short against f: the last stage waits for the gradient's and the activation's way.
  auto slow = cluster;
  const double round_trip = 0.25 * (times.forward + times.backward);
  for (auto& link : slow.links) link.latency_seconds = round_trip / 2 - transfer;
  const double fb = times.forward + times.backward;
  const double pipette = 32 * (round_trip + 2 * fb) + fb;
  const double tied = simulate(plan, slow).step_seconds;
  EXPECT_NEAR(tied / pipette, 1, 0.02);
  // A model that overlooks it would be this much too low.
  EXPECT_GT(tied, 1.1 * ((64 + 1) * fb + round_trip));
}

TEST(Simulator, CountsEveryByteOnce) {
  auto cluster = make_cluster({{"a", 4}}, 1e8, 1e-5);
  const int micro_batches = 6;
  const Plan plan = simple_plan(small_model(8), {"a0", "a1", "a2", "a3"}, 2, 2, micro_batches, 3);
  const Model& model = plan.job.model;
  for (const std::uint64_t bucket : {std::uint64_t{1}, std::uint64_t{300'000}, std::uint64_t{1} << 40}) {
    const Simulation simulation = simulate(plan, cluster, {.bucket_bytes = bucket});
    const double boundary = micro_batches * 3 * model.boundary_bytes();
    const double embedding = static_cast<double>(model.token_embedding_parameters()) * 4;
    EXPECT_DOUBLE_EQ(bytes_between(simulation, "a0", "a2"), boundary + embedding);
    EXPECT_DOUBLE_EQ(bytes_between(simulation, "a2", "a0"), boundary + embedding);
    // A ring of two: 2 (n - 1) / n = 1 times the stage's gradients each way.
    EXPECT_NEAR(bytes_between(simulation, "a0", "a1"),
                static_cast<double>((model.layers_parameters(0, 4) + model.end_parameters(true, false))) * 4,
                1e-3);
    EXPECT_NEAR(bytes_between(simulation, "a3", "a2"),
                static_cast<double>((model.layers_parameters(0, 4) + model.end_parameters(false, true))) * 4,
                1e-3);
    EXPECT_EQ(bytes_between(simulation, "a0", "a3"), 0);
  }
}

TEST(Simulator, ReductionOverlapsTheBackwardPass) {
  const auto cluster = make_cluster({{"a", 2}}, 2e6);
  const Plan plan = by_nccl(simple_plan(small_model(8), {"a0", "a1"}, 1, 2, 4));
  const double layer_by_layer = simulate(plan, cluster, {.bucket_bytes = 1}).step_seconds;
  const double at_the_end = simulate(plan, cluster, {.bucket_bytes = std::uint64_t{1} << 40}).step_seconds;
  const double compute = 4 * (stage_times(plan, cluster, 0).forward + stage_times(plan, cluster, 0).backward);
  const double reduction = static_cast<double>(plan.job.model.parameters()) * 4 / 2e6;
  EXPECT_NEAR(at_the_end, compute + reduction, 1e-9);
  EXPECT_LT(layer_by_layer, at_the_end);
  EXPECT_GE(layer_by_layer, std::max(compute, reduction));
}

TEST(Simulator, TwoPipelinesThroughOneNicHalveEachOther) {
  // Both replicas of a stage on one host: their transfers share its NIC.
  const auto apart = make_cluster({{"a", 4}}, 1e5);
  const auto together = make_cluster({{"a", 2, 2}}, 1e5);
  const auto first_send = [](const Plan& plan, const topology::ClusterFile& cluster) {
    for (const Span& span : simulate(plan, cluster).spans)
      if (span.name == "send") return span.end_seconds - span.begin_seconds;
    return 0.0;
  };
  const double alone = first_send(simple_plan(small_model(4), {"a0", "a1", "a2", "a3"}, 2, 2, 1), apart);
  const double shared = first_send(simple_plan(small_model(4), {"a0", "a0", "a1", "a1"}, 2, 2, 1), together);
  EXPECT_DOUBLE_EQ(alone, small_model(4).boundary_bytes() / 1e5);
  EXPECT_DOUBLE_EQ(shared, 2 * alone);
}

TEST(Simulator, RanksOnSharedCoresSlowEachOtherDown) {
  auto cluster = make_cluster({{"a", 4}}, kFree);
  const Plan plan = by_nccl(simple_plan(small_model(4), {"a0", "a1", "a2", "a3"}, 1, 4, 2));
  const double apart = simulate(plan, cluster).step_seconds;
  cluster.shared_processor = topology::SharedProcessor{{"a0", "a1", "a2", "a3"}, 2};
  EXPECT_NEAR(simulate(plan, cluster).step_seconds, 2 * apart, 1e-9);
}

/// With times of its own in place of FLOPs, and what sending a byte takes of the processor.
Plan profiled(Plan plan, double sending_seconds_per_byte) {
  auto profile = std::make_shared<Profile>();
  profile->measurements = {{"", "layer", 1, 1, {1, 2, 0, 0}}};
  profile->sending_seconds_per_byte = sending_seconds_per_byte;
  plan.job.profile = std::move(profile);
  return plan;
}

TEST(Simulator, SendingTakesTimeThatComputingLacks) {
  const auto cluster = make_cluster({{"a", 2}}, kFree);
  const int micro_batches = 6;
  const Plan plan = simple_plan(without_head(2), {"a0", "a1"}, 2, 1, micro_batches);
  const double sending = 0.1;
  const double free = simulate(profiled(plan, 0), cluster).step_seconds;
  const double paid =
      simulate(profiled(plan, sending / plan.job.model.boundary_bytes()), cluster).step_seconds;
  // The last stage sends a gradient after every backward pass; the first has time to spare.
  EXPECT_NEAR(paid - free, (micro_batches - 1) * sending, 1e-4) << "and the embedding, which is small";
}

TEST(Simulator, ReducingGradientsTakesTheProcessorThatRanksShare) {
  auto cluster = make_cluster({{"a", 2}}, kFree);
  cluster.shared_processor = topology::SharedProcessor{{"a0", "a1"}, 1};
  const Plan plan = by_nccl(simple_plan(without_head(2), {"a0", "a1"}, 1, 2, 2));
  const SimulationOptions one_bucket{.bucket_bytes = std::uint64_t{1} << 40};
  const double each = 1e-9;
  const double free = simulate(profiled(plan, 0), cluster, one_bucket).step_seconds;
  const double paid = simulate(profiled(plan, each), cluster, one_bucket).step_seconds;
  double bytes = 0;
  for (const LinkBytes& link : simulate(plan, cluster, one_bucket).links) bytes += link.bytes;
  EXPECT_NEAR(paid - free, each * bytes, 1e-6);
}

TEST(Simulator, SharedRoutingSendsInsideAClusterOverEthernetToo) {
  const auto cluster =
      make_cluster({{"a", 2, 1, NicKind::kInfiniBand, 1e9}, {"b", 2, 1, NicKind::kRoce, 1e9}}, 1e6);
  Plan plan = simple_plan(small_model(4), {"a0", "a1", "b0", "b1"}, 2, 2, 4);
  const Simulation best = simulate(plan, cluster);
  plan.routing = "shared";
  const Simulation shared = simulate(plan, cluster);
  EXPECT_GT(shared.step_seconds, 1.5 * best.step_seconds);
  for (const LinkBytes& link : shared.links) EXPECT_EQ(link.from_nic, "eth");
  for (const LinkBytes& link : best.links)
    EXPECT_EQ(link.from_nic, link.from_host[0] == link.to_host[0] ? "fast" : "eth") << link.from_host;
}

TEST(Simulator, IsDeterministic) {
  const auto cluster = make_cluster(
      {{"a", 2, 2, NicKind::kInfiniBand, 3e7, 1.1e9}, {"b", 2, 2, NicKind::kRoce, 2e7, 0.9e9}}, 1e6, 1e-4);
  const Plan plan = simple_plan(small_model(8), {"a0", "b0", "a0", "b0", "a1", "b1", "a1", "b1"}, 4, 2, 9, 2);
  const Simulation one = simulate(plan, cluster), two = simulate(plan, cluster);
  EXPECT_EQ(one.step_seconds, two.step_seconds);
  EXPECT_EQ(to_chrome_trace(one, plan), to_chrome_trace(two, plan));
}

TEST(Simulator, SpansOfOneRanksComputeDoNotOverlap) {
  const auto cluster = make_cluster({{"a", 4}}, 1e6, 1e-4);
  const Plan plan = simple_plan(small_model(8), {"a0", "a1", "a2", "a3"}, 4, 1, 7);
  std::map<int, double> until;
  int computes = 0;
  for (const Span& span : simulate(plan, cluster).spans) {
    if (span.name != "forward" && span.name != "backward") continue;
    EXPECT_GE(span.begin_seconds, until[span.rank]);
    until[span.rank] = span.end_seconds;
    ++computes;
  }
  EXPECT_EQ(computes, 4 * 2 * 7);
}

TEST(Simulator, NamesWhatTheClusterFileLacks) {
  auto cluster = make_cluster({{"a", 2}}, 1e6);
  const Plan plan = simple_plan(small_model(4), {"a0", "a1"}, 2, 1, 2);
  const auto message = [&] {
    try {
      simulate(plan, cluster);
    } catch (const Error& error) {
      EXPECT_EQ(error.cause(), Cause::kInvalidUsage);
      return std::string(error.what());
    }
    return std::string("nothing thrown");
  };
  cluster.hosts[1].devices[0].flops_per_second = 0;
  EXPECT_NE(message().find("device 0 of host a1"), std::string::npos) << message();
  cluster.hosts[1].devices[0].flops_per_second = 1e9;
  cluster.links.erase(cluster.links.begin());
  EXPECT_NE(message().find("no link from a0/eth to a1/eth"), std::string::npos) << message();
  cluster.hosts[1].nics[0].fabric = "elsewhere";
  EXPECT_NE(message().find("hosts a0 and a1 must talk"), std::string::npos) << message();
}

TEST(Simulator, BlockingSendsAddThemselvesToTheComputing) {
  auto cluster = make_cluster({{"a", 2}}, 1e6);
  Plan plan = simple_plan(without_head(2), {"a0", "a1"}, 2, 1, 2);
  const double c = plan.job.model.boundary_bytes() / 1e6;
  for (auto& host : cluster.hosts) host.devices[0].flops_per_second = 1e18;
  plan.job.framework = Framework::kMegatron;
  plan.job.model.tied_embeddings = false;
  const Times one = stage_times(plan, cluster, 0);
  const double computing = 3 * (one.forward + one.backward);
  ASSERT_LT(computing, 0.01 * c);
  EXPECT_NEAR(simulate(plan, cluster).step_seconds, 3 * c, 0.02 * c)
      << "an activation; the next, while its gradient comes back; the other gradient";
  plan.job.sends = StageSends::kTogether;
  EXPECT_NEAR(simulate(plan, cluster).step_seconds, 3 * c, 0.02 * c) << "both go at once";
  plan.job.sends = StageSends::kInTurn;
  EXPECT_NEAR(simulate(plan, cluster).step_seconds, 4 * c, 0.02 * c) << "the two in the middle take turns";
  for (auto& host : cluster.hosts) host.devices[0].flops_per_second *= computing / c;
  const Times slow = stage_times(plan, cluster, 0);
  EXPECT_NEAR(simulate(plan, cluster).step_seconds, 3 * (slow.forward + slow.backward) + 4 * c, 0.01 * c);
}

TEST(Simulator, EveryTensorRankGetsItsOwnCopyUnlessTheSequenceIsDivided) {
  const auto cluster = make_cluster({{"a", 2, 2}}, 1e9);
  Plan plan = simple_plan(small_model(4), {"a0", "a1"}, 2, 1, 2);
  plan.job.framework = Framework::kMegatron;
  plan.job.tensor = 2;
  for (Stage& stage : plan.pipelines[0].stages) stage.tensor = 2;
  plan.ranks = {{"a0", 0, 0, 0, 0}, {"a0", 1, 0, 0, 1}, {"a1", 0, 1, 0, 0}, {"a1", 1, 1, 0, 1}};
  const double embedding = static_cast<double>(plan.job.model.token_embedding_parameters()) * 4;
  const double boundary = plan.job.model.boundary_bytes();
  EXPECT_DOUBLE_EQ(bytes_between(simulate(plan, cluster), "a0", "a1"), 2 * 2 * boundary + embedding);
  plan.job.sequence_parallel = true;
  EXPECT_DOUBLE_EQ(bytes_between(simulate(plan, cluster), "a0", "a1"), 2 * boundary + embedding);
}

TEST(Simulator, NamesADeviceThatTheClusterLacks) {
  const Plan plan = profiled(simple_plan(without_head(4), {"a0", "a0", "a0", "a0"}, 2, 2, 1), 0);
  (void)simulate(plan, make_cluster({{"a", 1, 4}}, 1e9));
  try {
    (void)simulate(plan, make_cluster({{"a", 1, 2}}, 1e9));
    ADD_FAILURE() << "nothing thrown";
  } catch (const Error& error) {
    EXPECT_EQ(error.cause(), Cause::kInvalidUsage);
    EXPECT_STREQ(error.what(), "host a0 has 2 devices, so there is no device 2; they count from 0");
  }
}

TEST(Simulator, GpusOfAHostHaveLinksOfTheirOwn) {
  auto cluster = make_cluster({{"a", 1, 4}}, 1e9);
  for (auto& device : cluster.hosts[0].devices) device.flops_per_second = 1e18;
  cluster.links.push_back({"a0", "eth", "a0", "eth", 1e6, 0, true});
  Plan plan = simple_plan(without_head(2), {"a0", "a0", "a0", "a0"}, 2, 2, 1);
  plan.job.model.tied_embeddings = false;
  const double shared = simulate(plan, cluster).step_seconds;
  for (auto& device : cluster.hosts[0].devices) device.kind = topology::DeviceKind::kGpu;
  EXPECT_LT(simulate(plan, cluster).step_seconds, 0.6 * shared);
}

/// Equal stages without a head on a free network, one rank per stage.
double step_seconds_of(Schedule schedule, int stages, int micro_batches, int chunks, PassSeconds& one) {
  const auto cluster = make_cluster({{"a", stages}}, kFree);
  std::vector<std::string> hosts;
  for (int i = 0; i < stages; ++i) hosts.push_back("a" + std::to_string(i));
  Plan plan = simple_plan(without_head(stages * chunks), hosts, stages, 1, micro_batches);
  plan.job.schedule = schedule;
  plan.job.chunks = chunks;
  plan.job.framework = Framework::kMegatron;
  plan.pipelines =
      equal_pipelines(plan.job, to_stages(std::vector<int>(static_cast<std::size_t>(stages * chunks), 1)));
  const ClusterView view(cluster, plan.routing, hosts_of(plan));
  one = slot_costs(plan, view, {0}).stage({0, chunks}, true, false);
  return simulate(plan, cluster).step_seconds;
}

TEST(Simulator, GPipeAnd1F1BTakeEquallyLongOnAFreeNetwork) {
  PassSeconds one;
  const double gpipe = step_seconds_of(Schedule::kGPipe, 4, 6, 1, one);
  EXPECT_NEAR(gpipe, (6 + 4 - 1) * one.both(), 1e-4 * gpipe);
  EXPECT_NEAR(step_seconds_of(Schedule::kOneForwardOneBackward, 4, 6, 1, one), gpipe, 1e-4 * gpipe);
}

// Narayanan et al. (arXiv 2104.04473): the bubble shrinks by the number of chunks.
TEST(Simulator, InterleavingDividesTheBubbleByTheChunks) {
  for (const int chunks : {2, 3, 4}) {
    PassSeconds one;
    const double seconds = step_seconds_of(Schedule::kInterleaved, 4, 8, chunks, one);
    EXPECT_NEAR(seconds, (8 + 3.0 / chunks) * one.both(), 1e-3 * seconds) << chunks;
  }
}

// Qi et al. (arXiv 2401.10241), table 1: (p - 1) (F + B - W), where 1F1B has (p - 1) (F + B + W).
TEST(Simulator, ZeroBubbleH1LeavesOnlyForwardPlusInputMinusWeights) {
  for (const int stages : {2, 4, 6}) {
    PassSeconds one;
    const double seconds = step_seconds_of(Schedule::kZeroBubbleH1, stages, 3 * stages, 1, one);
    const double bubble = (stages - 1) * (one.forward + one.backward_input - one.backward_weights);
    EXPECT_NEAR(seconds, 3 * stages * one.both() + bubble, 2e-3 * seconds) << stages;
  }
}

TEST(Simulator, InterleavedZeroBubbleFillsTheBubbleWithGradientsOfWeights) {
  for (const int stages : {2, 4})
    for (const int chunks : {2, 4}) {
      PassSeconds one;
      const int count = 4 * stages;
      const double filled = step_seconds_of(Schedule::kInterleavedZeroBubble, stages, count, chunks, one);
      const double interleaved = step_seconds_of(Schedule::kInterleaved, stages, count, chunks, one);
      EXPECT_GE(filled, count * one.both() * (1 - 1e-9));
      // Of a chunk's bubble the gradients of weights are no longer a part, and fill as much again.
      const double bubble = (stages - 1) * (one.forward + one.backward_input - one.backward_weights) / chunks;
      EXPECT_NEAR(filled, count * one.both() + bubble, 2e-3 * filled) << stages << ' ' << chunks;
      EXPECT_LT(filled, interleaved);
    }
}

TEST(Simulator, OfSomeLayersComputedAgainTakesTheirForwardPasses) {
  const auto cluster = make_cluster({{"a", 2}}, kFree);
  Plan plan = simple_plan(without_head(8), {"a0", "a1"}, 2, 1, 4);
  plan.job.framework = Framework::kMegatron;
  plan.job.model.tied_embeddings = false;
  const auto seconds = [&](Recompute recompute, int layers) {
    plan.job.recompute = recompute;
    plan.job.recompute_layers = layers;
    return simulate(plan, cluster).step_seconds;
  };
  const double none = seconds(Recompute::kNone, 0), all = seconds(Recompute::kFull, 0);
  EXPECT_NEAR(seconds(Recompute::kFull, 1), none + (all - none) / 4, 1e-4 * none);
  EXPECT_NEAR(seconds(Recompute::kFull, 3), none + 3 * (all - none) / 4, 1e-4 * none);
}

TEST(Simulator, RecomputationCostsAForwardPass) {
  const auto cluster = make_cluster({{"a"}}, 1e6);
  Plan plan = simple_plan(without_head(4), {"a0"}, 1, 1, 2);
  plan.job.framework = Framework::kMegatron;
  const double kept = simulate(plan, cluster).step_seconds;
  plan.job.recompute = Recompute::kFull;
  EXPECT_NEAR(simulate(plan, cluster).step_seconds, kept * 4 / 3, 1e-3 * kept);
}

TEST(Simulator, TensorParallelRanksDivideTheWorkAndPayForTheirSums) {
  auto cluster = make_cluster({{"a", 1, 2}}, 1e6);
  Plan plan = simple_plan(without_head(4), {"a0", "a0"}, 1, 1, 2);
  plan.job.framework = Framework::kMegatron;
  plan.ranks.resize(1);
  const double alone = simulate(plan, cluster).step_seconds;
  plan.job.tensor = 2;
  plan.pipelines[0].stages[0].tensor = 2;
  plan.ranks = {{"a0", 0, 0, 0, 0}, {"a0", 1, 0, 0, 1}};
  EXPECT_NEAR(simulate(plan, cluster).step_seconds, alone / 2, 1e-6 * alone);
  EXPECT_NEAR(simulate(plan, cluster).bubble_fraction, 0, 1e-6);
  cluster.links.push_back({"a0", "eth", "a0", "eth", 1e9, 0, true});
  // Twice in each direction, all of it once over each of two edges, for four layers and two micro-batches;
  // and the gradient of the output projection's input.
  const double sums = (4.0 * 4 + 1) * 2 * plan.job.model.boundary_bytes() / 1e9;
  EXPECT_NEAR(simulate(plan, cluster).step_seconds, alone / 2 + sums, 1e-6 * alone);
}

TEST(Simulator, ReplicasThatDifferReduceEachLayerAmongItsOwners) {
  const auto cluster = make_cluster({{"a", 2}, {"b", 1}}, 1e9);
  Plan plan = simple_plan(without_head(8), {"a0", "a1"}, 2, 1, 4);
  plan.job.data = 2;
  plan.job.global_batch = 6;
  plan.pipelines.push_back({{{0, 8, 1}}, 2, 1});
  plan.ranks.push_back({"b0", 0, 0, 1, 0});
  const Simulation simulation = simulate(plan, cluster);
  const double layer = static_cast<double>(plan.job.model.layer_parameters()) * 4;
  // Each direction carries each layer once, and the first stage's range the embeddings too.
  const double embeddings = static_cast<double>(plan.job.model.embedding_parameters()) * 4;
  EXPECT_NEAR(bytes_between(simulation, "b0", "a0"), 4 * layer + embeddings, 1e-3 * layer);
  EXPECT_NEAR(bytes_between(simulation, "b0", "a1"), 4 * layer, 1e-3 * layer);
}

TEST(Simulator, AShardedOptimizerSendsAsMuchAsAnAllReduce) {
  const auto cluster = make_cluster({{"a", 4}}, 1e9);
  Plan plan = simple_plan(without_head(4), {"a0", "a1", "a2", "a3"}, 1, 4, 2);
  plan.job.framework = Framework::kMegatron;
  plan.job.model.bytes_per_value = 4;
  const Simulation whole = simulate(plan, cluster);
  plan.job.sharding = Sharding::kOptimizer;
  const Simulation sharded = simulate(plan, cluster);
  EXPECT_NEAR(bytes_between(sharded, "a0", "a1"), bytes_between(whole, "a0", "a1"), 1);
  EXPECT_GT(sharded.step_seconds, whole.step_seconds) << "the second half does not overlap the backward pass";
}

TEST(Simulator, GradientsThatDoNotOverlapTakeLonger) {
  const auto cluster = make_cluster({{"a", 2}}, 1e5);
  Plan plan = simple_plan(without_head(4), {"a0", "a1"}, 1, 2, 2);
  const double overlapped = simulate(plan, cluster).step_seconds;
  plan.job.overlap_gradients = false;
  EXPECT_GT(simulate(plan, cluster).step_seconds, 1.05 * overlapped);
}

// Of plans with so many replicas one is looked at alone before all are simulated.
TEST(Simulator, OneOfManyReplicasNeverRefusesAPlanWhoseStepIsShortEnough) {
  std::mt19937_64 random(test_seed());
  for (int plans = 0; plans < test_rounds(20);) {
    auto cluster = testing::alike_hosts(random, 2 + static_cast<int>(random() % 2), 4, 4);
    for (int i = static_cast<int>(random() % 4); i > 0; --i) testing::spoil(random, cluster);
    const Plan plan = testing::random_plan(random, cluster);
    if (plan.data_size() < 16) continue;
    ++plans;
    const ClusterView view(cluster, "per-peer", {});
    for (const bool links : {true, false}) {
      const double step = simulate(plan, view, {.spans = false, .links = links}).step_seconds;
      const SimulationOptions at_most{.spans = false, .links = links, .limit_seconds = step * (1 + 1e-12)};
      ASSERT_EQ(simulate(plan, view, at_most).step_seconds, step) << plan.data_size() << " replicas";
      const double least = least_step_seconds(plan, view);
      ASSERT_LE(least, step * (1 + 1e-9));
      const SimulationOptions less{.spans = false, .links = links, .limit_seconds = 0.99 * least};
      ASSERT_EQ(simulate(plan, view, less).step_seconds, least) << "refused by one replica";
    }
  }
}

}  // namespace
}  // namespace tombolo::planner
