#include "planner/strategies/auto.h"

#include <gtest/gtest.h>

#include <random>

#include "base/randomized_test.h"
#include "planner/plan/model_chunks.h"
#include "planner/testing/testing_strategies.h"

namespace tombolo::planner {
namespace {

using namespace testing;

TEST(Auto, IsNeverWorseThanAnother) {
  std::mt19937_64 random(test_seed());
  for (int trial = 0; trial < test_rounds(4); ++trial) {
    // A search of twelve takes a sanitizer most of a minute.
    const topology::ClusterFile cluster =
        random_cluster(random, 7 + static_cast<int>(random() % (kSanitized ? 2 : 6)));
    const Job job = random_job(random, 8, 12);
    const double best = seconds_by(cluster, job, "auto");
    for (const std::string_view strategy : strategy_names({&StrategyCapabilities::asks_others}, false))
      EXPECT_LE(best, seconds_by(cluster, job, strategy) * (1 + 1e-9)) << strategy << ", trial " << trial;
  }
}

TEST(Auto, IsNeverWorseThanAnotherWhereItPlansParts) {
  std::mt19937_64 random(test_seed());
  std::uniform_real_distribution<> factor(0.1, 10);
  for (int trial = 0; trial < test_rounds(4); ++trial) {
    const auto cluster =
        make_cluster({{"a", 2, 2, topology::NicKind::kInfiniBand, 1e8 * factor(random), 1e9 * factor(random)},
                      {"b", 2, 2, topology::NicKind::kRoce, 1e8 * factor(random), 1e9}},
                     1e6 * factor(random));
    const Job job = random_job(random, 8, 16);
    PlanOptions options;
    options.uneven_replicas = traits(job.framework).uneven_replicas;
    const ClusterView view(cluster, "per-peer", {});
    const std::vector<LauncherSlot> slots = launcher_slots(view, {});
    const Plan plan = auto_plan({view, view, slots, options}, job, 4);
    EXPECT_NE(plan.notes.front().find("a part, repeated"), std::string::npos) << plan.notes.front();
    EXPECT_NEAR(simulate(plan, cluster).step_seconds, plan.prediction.step_seconds,
                1e-9 * plan.prediction.step_seconds);
    for (const std::string_view strategy : strategy_names({&StrategyCapabilities::asks_others}, false))
      EXPECT_LE(plan.prediction.step_seconds, seconds_by(cluster, job, strategy) * (1 + 1e-9))
          << strategy << ", trial " << trial;
  }
}

// Stages of 13 and 27 layers have no equal chunks.
TEST(Auto, InterleavesStagesOfOddNumbersOfLayers) {
  auto cluster = make_cluster({{"a", 2, 4, topology::NicKind::kInfiniBand, 1e12, 1e12},
                               {"b", 2, 4, topology::NicKind::kInfiniBand, 1e12, 1e12}},
                              1e12);
  for (auto& host : cluster.hosts) {
    host.device_bytes_per_second = 1e12;
    for (auto& device : host.devices) device.flops_per_second = host.cluster == "a" ? 13e9 : 27e9;
  }
  Job job;
  job.model = small_model(80);
  job.framework = Framework::kMegatron;
  job.global_batch = 16;
  job.micro_batch = 1;
  job.pipeline = 4;
  job.data = 4;
  job.tensor = 1;
  PlanOptions options;
  options.schedules = {{Schedule::kOneForwardOneBackward, 1}};
  const ClusterView view(cluster, "per-peer", {});
  const std::vector<LauncherSlot> slots = launcher_slots(view, {});
  const Plan plain = auto_plan({view, view, slots, options}, job);
  const auto chunked = in_chunks(plain, 2).plan;
  ASSERT_TRUE(chunked);
  const double seconds = simulate(*chunked, cluster).step_seconds;
  ASSERT_LT(seconds, plain.prediction.step_seconds);
  options.schedules.emplace_back(Schedule::kInterleaved, 2);
  const Plan plan = auto_plan({view, view, slots, options}, job);
  EXPECT_LE(plan.prediction.step_seconds, seconds * (1 + 1e-9));
  EXPECT_NEAR(simulate(plan, cluster).step_seconds, plan.prediction.step_seconds,
              1e-9 * plan.prediction.step_seconds);
  EXPECT_EQ(plan.job.chunks, 2);
}

}  // namespace
}  // namespace tombolo::planner
