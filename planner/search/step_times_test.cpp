#include "planner/search/step_times.h"

#include <gtest/gtest.h>

#include <random>
#include <set>

#include "base/randomized_test.h"
#include "planner/simulate/simulator.h"
#include "planner/testing/testing_search.h"

namespace tombolo::planner {
namespace {

using testing::make_cluster;
using testing::simple_plan;
using testing::small_model;

TEST(SimulateIfLinked, SaysWhatLacksAndStopsAtTheLimit) {
  auto cluster = make_cluster({{"a", 2}}, 1e6);
  const Plan plan = simple_plan(small_model(4), {"a0", "a1"}, 2, 1, 4);
  double seconds = 0;
  {
    const ClusterView view(cluster, "per-peer", {});
    const auto step = simulate_if_linked(plan, view);
    ASSERT_TRUE(step);
    seconds = step->seconds;
    EXPECT_FALSE(simulate_if_linked(plan, view, seconds));
    EXPECT_TRUE(simulate_if_linked(plan, view, seconds * 1.001));
  }
  cluster.links.clear();
  const ClusterView view(cluster, "per-peer", {});
  std::string why;
  EXPECT_FALSE(simulate_if_linked(plan, view, 1e9, &why));
  EXPECT_NE(why.find("no link from a0/eth to a1/eth"), std::string::npos) << why;
}

TEST(Fingerprint, ChangesWithWhatAStepsTimeDependsOn) {
  const Plan plan = testing::simple_plan(testing::small_model(8), {"a0", "a1", "b0", "b1"}, 2, 2, 4);
  std::set<std::uint64_t> seen{fingerprint(plan)};
  EXPECT_EQ(fingerprint(Plan(plan)), *seen.begin());
  const auto expect_new = [&](auto change) {
    Plan other = plan;
    change(other);
    EXPECT_TRUE(seen.insert(fingerprint(other)).second);
  };
  expect_new([](Plan& one) { one.job.sharding = Sharding::kOptimizer; });
  expect_new([](Plan& one) { one.job.recompute = Recompute::kFull; });
  expect_new([](Plan& one) { one.job.schedule = Schedule::kGPipe; });
  expect_new([](Plan& one) { one.pipelines[1].stages[0].layers = 3; });
  expect_new([](Plan& one) { one.pipelines[0].micro_batch = 2; });
  expect_new([](Plan& one) { std::swap(one.ranks[0].host, one.ranks[2].host); });
  expect_new([](Plan& one) { std::swap(one.ranks[0].replica, one.ranks[1].replica); });
}

TEST(StepTimes, AnswerAsSimulationsDoAndSimulateNoPlanTwice) {
  std::mt19937_64 random(test_seed());
  const auto cluster = make_cluster({{"a", 2}, {"b", 2}}, 1e6);
  const ClusterView view(cluster, "per-peer", {});
  std::vector<Plan> plans;
  for (const int rows : {4, 8, 12, 16})
    for (const auto& [stages, replicas] : {std::pair{2, 2}, {4, 1}, {1, 4}})
      plans.push_back(simple_plan(small_model(8), {"a0", "a1", "b0", "b1"}, stages, replicas, rows));
  StepTimes times;
  for (int round = 0; round < test_rounds(200); ++round) {
    const Plan& plan = plans[random() % plans.size()];
    const double seconds = simulate(plan, view, {}).step_seconds;
    const double limit = seconds * std::uniform_real_distribution<>(0.2, 1.8)(random);
    const auto told = times.below(limit, plan, view), simulated = simulate_if_linked(plan, view, limit);
    ASSERT_EQ(told.has_value(), simulated.has_value());
    if (!told) continue;
    EXPECT_EQ(told->seconds, simulated->seconds);
    EXPECT_EQ(told->bubble_fraction, simulated->bubble_fraction);
  }
  for (const Plan& plan : plans) times.below(1e9, plan, view);
  const std::int64_t before = times.simulated();
  for (const Plan& plan : plans) {
    EXPECT_TRUE(times.below(1e9, plan, view));
    EXPECT_FALSE(times.below(1e-9, plan, view));
  }
  EXPECT_EQ(times.simulated(), before);
}

TEST(StepTimes, SimulateFurtherWhereTheLimitIsHigherThanBefore) {
  const auto cluster = make_cluster({{"a", 2}}, 1e6);
  const ClusterView view(cluster, "per-peer", {});
  const Plan plan = simple_plan(small_model(4), {"a0", "a1"}, 2, 1, 4);
  const double seconds = simulate(plan, view, {}).step_seconds;
  StepTimes times;
  EXPECT_FALSE(times.below(seconds / 4, plan, view));
  EXPECT_FALSE(times.below(seconds / 8, plan, view));
  EXPECT_EQ(times.simulated(), 1) << "it takes longer than a quarter, and so than an eighth";
  EXPECT_FALSE(times.below(seconds / 2, plan, view));
  EXPECT_TRUE(times.below(seconds * 2, plan, view));
  EXPECT_EQ(times.simulated(), 3);
}

}  // namespace
}  // namespace tombolo::planner
