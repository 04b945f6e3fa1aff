#include "planner/cost/layer_seconds.h"

#include <gtest/gtest.h>

#include <random>

#include "base/randomized_test.h"
#include "planner/cost/costs.h"
#include "planner/testing/testing.h"

namespace tombolo::planner {
namespace {

/// GPT of 12 H^2 parameters of matrices per layer, in values of 2 bytes.
Job gpt(int hidden, int heads, int context) {
  Job job;
  job.framework = Framework::kMegatron;
  job.model = {"gpt", 24, hidden, heads, context, 51200, 2};
  return job;
}

ComputeProfile unfused() {
  ComputeProfile profile;
  profile.products = 0.8;
  profile.traffic = 1.5;
  profile.loss_traffic = 150;
  return profile;
}

constexpr DeviceSpeeds kSpeeds{3e14, 1.7e12};

TEST(LayerSeconds, AreProductsMemoryAndReductionsOfAnUnfusedGpt) {
  Job job = gpt(2048, 16, 1024);
  const double tokens = 2 * 1024.0, h = 2048, t = 4;
  const double work = (24 * tokens * h * h + 4 * tokens * 1024 * h) / t / (0.8 * 3e14);
  const double memory = 1.5 * (10 * tokens * h + tokens * (24 * h + 5 * 16 * 1024) / t) / 1.7e12;
  const TensorReduce reduce{1e-4, 1e-5};
  const PassSeconds none = layer_seconds(job, unfused(), kSpeeds, {4}, 2, reduce);
  EXPECT_NEAR(none.forward, work + memory + 2e-4 + 2e-5, 1e-12);
  EXPECT_NEAR(none.backward(), 2 * work + 2 * memory + 2e-4 + 2e-5, 1e-12);
  EXPECT_NEAR(none.backward_weights, 24 * tokens * h * h / t / (0.8 * 3e14) + memory, 1e-12);
  job.recompute = Recompute::kFull;
  EXPECT_NEAR(layer_seconds(job, unfused(), kSpeeds, {4}, 2, reduce).backward(),
              none.backward() + none.forward, 1e-12);
  job.recompute = Recompute::kSelective;
  const double again = 4 * tokens * 1024 * h / t / (0.8 * 3e14) + 1.5 * tokens * 5 * 16 * 1024 / t / 1.7e12;
  EXPECT_NEAR(layer_seconds(job, unfused(), kSpeeds, {4}, 2, reduce).backward(), none.backward() + again,
              1e-12);
}

TEST(LayerSeconds, ExchangesBesideProductsLeaveOneRanksPartOver) {
  Job job = gpt(2048, 16, 1024);
  const double products = 24 * 2 * 1024.0 * 2048 * 2048 / 4 / (0.8 * 3e14);
  const PassSeconds alone = layer_seconds(job, unfused(), kSpeeds, {4}, 2, {});
  job.overlap_tensor = true;
  const TensorReduce shorter{0.2 * products, 0.05 * products}, longer{2 * products, 0};
  const PassSeconds few = layer_seconds(job, unfused(), kSpeeds, {4}, 2, shorter),
                    many = layer_seconds(job, unfused(), kSpeeds, {4}, 2, longer);
  EXPECT_NEAR(few.forward, alone.forward + 0.5 * products / 4, 1e-12);
  EXPECT_NEAR(few.backward(), alone.backward() + 0.5 * products / 4, 1e-12);
  EXPECT_NEAR(many.forward, alone.forward + 3 * products + products / 4, 1e-12);
  EXPECT_NEAR(many.backward(), alone.backward() + 2 * products + 2 * products / 4, 1e-12);
}

TEST(LayerSeconds, FusedAttentionSkipsWhatIsMaskedAndKeepsNoWeights) {
  Job job = gpt(4096, 32, 4096);
  job.model.gated = true;
  job.model.feed_forward = 14336;
  job.sequence_parallel = true;
  ComputeProfile profile = unfused();
  profile.fused_attention = true;
  profile.attention = 0.5;
  const double tokens = 4096, h = 4096, f = 14336, t = 2;
  const double products = 2 * tokens * (4 * h * h + 3 * h * f) / t / (0.8 * 3e14);
  const double core = 2 * tokens * 4096 * h / t / (0.4 * 3e14);
  const double memory = 1.5 * tokens * (16 * h + 6 * f) / t / 1.7e12;
  const PassSeconds pass = layer_seconds(job, profile, kSpeeds, {2}, 1, {});
  EXPECT_NEAR(pass.forward, products + core + memory, 1e-12);
  EXPECT_NEAR(pass.backward(), 2 * products + 2.5 * core + 2 * memory, 1e-12);
}

TEST(LayerSeconds, LaunchesAreAFloorThatHidesBytesButNotHops) {
  const Job job = gpt(64, 4, 64);
  ComputeProfile profile = unfused();
  profile.forward_floor = 1e-3;
  profile.backward_floor = 2e-3;
  profile.floor_per_host = 5e-4;
  profile.floor_per_pipelined_rank = 1e-4;
  const TensorReduce reduce{1e-5, 1e-5};
  const PassSeconds inside = layer_seconds(job, profile, kSpeeds, {4}, 1, reduce);
  EXPECT_NEAR(inside.forward, 1e-3 + 2e-5, 1e-12);
  EXPECT_NEAR(inside.backward(), 2e-3 + 2e-5, 1e-12);
  EXPECT_GT(inside.backward_weights, 0);
  const PassSeconds across = layer_seconds(job, profile, kSpeeds, {4, 2, true}, 1, reduce);
  EXPECT_NEAR(across.forward, 1e-3 + 5e-4 + 4e-4 + 2e-5, 1e-12);
  EXPECT_NEAR(across.backward(), 2 * (1e-3 + 5e-4 + 4e-4) + 2e-5, 1e-12);
}

TEST(LayerSeconds, NeverFallWithMoreRows) {
  std::mt19937 random(test_seed());
  const auto draw = [&](double low, double high) {
    return std::uniform_real_distribution(low, high)(random);
  };
  for (int round = 0; round < test_rounds(200); ++round) {
    const Job job = gpt(256 * std::uniform_int_distribution(1, 16)(random), 8, 512);
    ComputeProfile profile;
    profile.products = draw(0.3, 1);
    profile.attention = draw(0.3, 1);
    profile.fused_attention = round % 2 == 0;
    profile.traffic = draw(0, 4);
    profile.forward_floor = draw(0, 2e-3);
    profile.backward_floor = draw(0, 4e-3);
    const LayerGroup group{1 << std::uniform_int_distribution(0, 3)(random)};
    PassSeconds less;
    for (int rows = 1; rows <= 64; rows *= 2) {
      const PassSeconds more = layer_seconds(job, profile, kSpeeds, group, rows, {});
      EXPECT_GE(more.forward, less.forward);
      EXPECT_GE(more.backward(), less.backward() * (1 - 1e-12));
      EXPECT_GE(more.backward(), profile.backward_floor * (1 - 1e-12));
      less = more;
    }
  }
}

TEST(HeadSeconds, AreThreeProductsAndTheLossesTraffic) {
  const Job job = gpt(1024, 16, 1024);
  const double product = 2.0 * 3 * 1024 * 1024 * 51200 / 2 / (0.8 * 3e14);
  const double loss = 150.0 * 3 * 1024 * 51200 / 2 / 1.7e12;
  const PassSeconds head = head_seconds(job, unfused(), kSpeeds, {2}, 3, {1e-4, 1e-5});
  EXPECT_NEAR(head.forward, product + loss / 3, 1e-12);
  EXPECT_NEAR(head.both(), 3 * product + loss + 1.1e-4, 1e-12);
}

TEST(SlotCosts, TakeTheRecordOfTheGpuAndOfNoOtherDevice) {
  auto cluster = testing::make_cluster({{"a", 2, 1}}, 1e9);
  for (auto& host : cluster.hosts)
    for (auto& device : host.devices) {
      device.name = "X1";
      device.kind = topology::DeviceKind::kGpu;
    }
  Plan plan = testing::simple_plan(testing::small_model(4), {"a0", "a1"}, 2, 1, 4, 3);
  plan.job.framework = Framework::kMegatron;
  ComputeProfile profile;
  profile.forward_floor = 100;
  profile.backward_floor = 200;
  profile.step_seconds = 7;
  auto profiles = std::make_shared<ComputeProfiles>();
  profiles->add("X1", profile);
  plan.job.compute = profiles;
  const auto costs = [&] { return slot_costs(plan, ClusterView(cluster, "per-peer", {}), {0}); };
  EXPECT_DOUBLE_EQ(costs().layer.forward, 100);
  EXPECT_DOUBLE_EQ(costs().layer.backward(), 200);
  EXPECT_DOUBLE_EQ(costs().optimizer, 7);
  cluster.hosts[0].devices[0].name = "X2";
  EXPECT_LT(costs().layer.forward, 1) << "there is no record for X2";
  profiles->add(std::string(ComputeLibrary::kAnyGpu), profile);
  EXPECT_DOUBLE_EQ(costs().layer.forward, 100);
  cluster.hosts[0].devices[0].kind = topology::DeviceKind::kCpu;
  EXPECT_LT(costs().layer.forward, 1) << "a processor is no GPU";
}

TEST(SlotCosts, SharesOfLinksCountAndHopsBetweenHostsHideBehindLaunches) {
  auto cluster = testing::make_cluster({{"a", 2, 1}}, 1e9);
  for (auto& host : cluster.hosts)
    for (auto& device : host.devices) {
      device.name = "X1";
      device.kind = topology::DeviceKind::kGpu;
      device.flops_per_second = 1e18;
    }
  Plan plan = testing::simple_plan(testing::small_model(4), {"a0", "a1"}, 1, 1, 1);
  plan.job.framework = Framework::kMegatron;
  plan.job.tensor = 2;
  plan.pipelines = equal_pipelines(plan.job, {{0, 4, 2}});
  plan.ranks = {{"a0", 0, 0, 0, 0}, {"a1", 0, 0, 0, 1}};
  const auto forward = [&](const ComputeProfile& profile) {
    auto profiles = std::make_shared<ComputeProfiles>();
    profiles->add("X1", profile);
    plan.job.compute = profiles;
    return slot_costs(plan, ClusterView(cluster, "per-peer", {}), {0, 1}).layer.forward;
  };
  const double plain = forward({});
  ComputeProfile slow, hops, launches;
  slow.network_share = 0.5;
  // Two reductions, in each of which every rank sends and receives half of the activations twice.
  EXPECT_NEAR(forward(slow) - plain, 2 * plan.job.model.boundary_bytes() / 1e9, 1e-9);
  hops.network_hop_seconds = 1;
  EXPECT_NEAR(forward(hops) - plain, 2 * 2 * 1, 1e-9);
  launches = hops;
  launches.forward_floor = launches.backward_floor = 100;
  EXPECT_NEAR(forward(launches), 100, 0.1);
}

TEST(LayerSeconds, InFp8AreFasterProductsAndWhatConvertsTheirOperands) {
  Job job = gpt(4096, 32, 4096);
  job.model.gated = true;
  job.model.feed_forward = 14336;
  job.model.kv_heads = 8;
  ComputeProfile profile = unfused();
  profile.fused_attention = true;
  const DeviceSpeeds speeds{4e14, 2e12, 8e14};
  const double tokens = 3 * 4096.0, h = 4096, f = 14336, t = 4;
  const double products = 2 * tokens * (2.5 * h * h + 3 * h * f) / t / (0.8 * 4e14);
  const PassSeconds plain = layer_seconds(job, profile, speeds, {4}, 3, {});
  const PassSeconds plain_head = head_seconds(job, profile, speeds, {4}, 3, {});
  job.precision = Precision::kFp8Hybrid;
  const PassSeconds fp8 = layer_seconds(job, profile, speeds, {4}, 3, {});
  // Two bytes are read and two written of each input, and of the gradient of each output.
  const double inputs = 4 * tokens * (2 * h + (h + f) / t) / 2e12;
  const double outputs = 4 * tokens * (2 * h + (1.5 * h + 2 * f) / t) / 2e12;
  EXPECT_NEAR(fp8.forward, plain.forward - products / 2 + inputs, 1e-12);
  EXPECT_NEAR(fp8.backward(), plain.backward() - products + outputs, 1e-12);
  EXPECT_NEAR(fp8.backward_weights, plain.backward_weights - products / 2, 1e-12);
  EXPECT_EQ(head_seconds(job, profile, speeds, {4}, 3, {}).both(), plain_head.both());
  job.sequence_parallel = true;
  EXPECT_NEAR(fp8_conversions(job, 4, 3).forward, 4 * tokens * (3 * h + f) / t, 1);
}

TEST(LayerSeconds, OfAttentionThatIsNotFusedComputeWhatIsMaskedAndMoveItsWeights) {
  Job job = gpt(4096, 32, 8192);
  ComputeProfile profile = unfused();
  const PassSeconds measured_so = layer_seconds(job, profile, kSpeeds, {2}, 1, {});
  profile.fused_attention = true;
  const PassSeconds with = layer_seconds(job, profile, kSpeeds, {2}, 1, {});
  profile.attention = 0.5;  // of a fused core
  job.fused_attention = false;
  const PassSeconds without = layer_seconds(job, profile, kSpeeds, {2}, 1, {});
  EXPECT_DOUBLE_EQ(without.forward, measured_so.forward);
  EXPECT_DOUBLE_EQ(without.backward(), measured_so.backward());
  const double core = 4 * 8192.0 * 8192 * 4096 / 2 / (0.8 * 3e14);
  EXPECT_GT(without.forward - with.forward, core / 2) << "and the weights go through memory";
  job.recompute = Recompute::kSelective;
  EXPECT_GT(layer_seconds(job, profile, kSpeeds, {2}, 1, {}).backward(), without.backward() + core * 0.999);
}

TEST(LayerSeconds, OfDividedRowsAreThePartsAndWhatTheExchangeShows) {
  Job job = gpt(4096, 32, 8192);
  job.model.kv_heads = 8;
  ComputeProfile profile = unfused();
  profile.fused_attention = true;
  const PassSeconds whole = layer_seconds(job, profile, kSpeeds, {2}, 1, {});
  const PassSeconds whole_head = head_seconds(job, profile, kSpeeds, {2}, 1, {});
  job.context_parallel = 4;
  const double core = 0.5 * 4 * 8192.0 * 8192 * 4096 / 2 / 4 / (0.8 * 3e14);
  // A rank's keys and values: half as many bytes as one boundary has, for 8 of 32 heads have their own.
  const double block = 0.5 * 2048.0 * 4096 * 2 / 2;
  const auto seconds = [&](double per_byte, double hop) {
    return layer_seconds(job, profile, kSpeeds, {.tensor = 2, .context = {4, per_byte, hop}}, 1, {});
  };
  const PassSeconds hidden = seconds(0.9 * core / 4 / block, 0);
  EXPECT_NEAR(hidden.forward, whole.forward / 4, 1e-12);
  EXPECT_NEAR(hidden.backward(), whole.backward() / 4 + 0.9 * core / 4, 1e-12) << "gradients' last way home";
  EXPECT_NEAR(head_seconds(job, profile, kSpeeds, {2}, 1, {}).both(), whole_head.both() / 4, 1e-12);
  const double step = 3 * core / 4, hop = 1e-6;
  const PassSeconds shown = seconds(step / block, hop);
  EXPECT_NEAR(shown.forward, whole.forward / 4 + 3 * (step + hop - core / 4), 1e-12);
  EXPECT_NEAR(shown.backward(), whole.backward() / 4 + 3 * (2 * (step + hop) - 2.5 * core / 4) + step + hop,
              1e-12);
  job.recompute = Recompute::kFull;
  EXPECT_NEAR(seconds(step / block, hop).backward(), shown.backward() + shown.forward, 1e-12);
  job.recompute = Recompute::kNone;
  // Queries and outputs are as large as a boundary, keys and values a quarter of it each.
  job.context_exchange = ContextExchange::kAllToAll;
  const double all = 0.75 * 2.5 * 2048.0 * 4096 * 2 / 2 * 1e-9 + 4 * hop;
  EXPECT_NEAR(seconds(1e-9, hop).forward, whole.forward / 4 + all, 1e-12);
  EXPECT_NEAR(seconds(1e-9, hop).backward(), whole.backward() / 4 + all, 1e-12);
}

}  // namespace
}  // namespace tombolo::planner
