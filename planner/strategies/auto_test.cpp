#include "planner/strategies/auto.h"

#include <gtest/gtest.h>

#include <random>

#include "base/randomized_test.h"
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

}  // namespace
}  // namespace tombolo::planner
