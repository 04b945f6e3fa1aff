#include "planner/search/search.h"

#include <gtest/gtest.h>

#include <array>
#include <random>

#include "base/randomized_test.h"
#include "planner/cost/costs.h"
#include "planner/cost/memory.h"
#include "planner/testing/testing_search.h"

namespace tombolo::planner {
namespace {

using testing::gpu_cluster;
using testing::make_cluster;
using testing::random_cluster;
using testing::SearchSetting;
using testing::simple_plan;
using testing::small_model;

TEST(LowerBound, NoSimulationComesBelowIt) {
  std::mt19937_64 random(test_seed());
  const auto below = [&](int count) {
    return static_cast<int>(random() % static_cast<std::uint64_t>(count));
  };
  for (int round = 0; round < test_rounds(100); ++round) {
    const SearchSetting setting(random_cluster(random, 4), testing::free_job(8, 8));
    Layout layout;
    const bool one_pipeline = below(2) == 0;
    const int cut = 1 + below(7);
    if (one_pipeline)
      layout.replicas = {{{{{0}, 1}, {{1}, 2}, {{2}, 2}, {{3}, 3}}, 8, 1 << below(3)}};
    else
      layout.replicas = {{{{{0}, cut}, {{1}, 8 - cut}}, 4, 1 << below(2)},
                         {{{{2}, 8 - cut}, {{3}, cut}}, 4, 2}};
    layout.schedule = std::array{Schedule::kGPipe, Schedule::kOneForwardOneBackward,
                                 Schedule::kZeroBubbleH1}[static_cast<std::size_t>(below(3))];
    const Plan plan = plan_of(setting.context, setting.job, layout);
    EXPECT_LE(lower_bound(plan, setting.view), simulate(plan, setting.view, {}).step_seconds * (1 + 1e-9));
  }
}

TEST(LowerBound, OfOneRankIsItsComputing) {
  const auto cluster = make_cluster({{"a", 1}}, 1e6);
  const ClusterView view(cluster, "per-peer", {});
  const Plan plan = simple_plan(small_model(4), {"a0"}, 1, 1, 6);
  const SlotCosts costs = slot_costs(plan, view, {0});
  EXPECT_NEAR(lower_bound(plan, view), 6 * costs.stage(plan.stage(0), true, true).both(), 1e-12);
}

TEST(MissingMemory, IsThatOfTheRankThatLacksMost) {
  auto cluster = make_cluster({{"a", 2}}, 1e6);
  const Plan plan = simple_plan(small_model(4), {"a0", "a1"}, 2, 1, 4);
  const auto memory = memory_by_rank(plan);
  {
    const ClusterView view(cluster, "per-peer", {});
    EXPECT_EQ(missing_memory(plan, view).bytes, 0u) << "sizes are unknown";
  }
  cluster.hosts[0].devices[0].memory_bytes = static_cast<double>(memory[0].total - 5);
  cluster.hosts[1].devices[0].memory_bytes = static_cast<double>(memory[1].total - 7);
  const ClusterView view(cluster, "per-peer", {});
  const Missing missing = missing_memory(plan, view);
  EXPECT_EQ(missing.bytes, 7u);
  EXPECT_EQ(missing.rank, 1);
  EXPECT_EQ(missing_on(plan.job, view, plan.ranks[0], memory[0].total - 5), 0u) << "exactly what there is";
}

TEST(SimulateIfLinked, SaysWhatLacksAndStopsAtTheLimit) {
  auto cluster = make_cluster({{"a", 2}}, 1e6);
  const Plan plan = simple_plan(small_model(4), {"a0", "a1"}, 2, 1, 4);
  double seconds = 0;
  {
    const ClusterView view(cluster, "per-peer", {});
    const auto simulation = simulate_if_linked(plan, view);
    ASSERT_TRUE(simulation);
    seconds = simulation->step_seconds;
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

}  // namespace
}  // namespace tombolo::planner
