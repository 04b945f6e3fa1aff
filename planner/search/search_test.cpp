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
  for (int round = 0; round < test_rounds(150); ++round) {
    auto cluster = random_cluster(random, 4);
    if (below(2) == 0) {
      // All that leaves some host, and perhaps another's, over one line.
      topology::SharedLink line{"line", {}, {}, 1e5 * (1 + below(20))};
      for (const auto& host : cluster.hosts)
        (line.from.empty() || below(2) == 0 ? line.from : line.to).push_back({host.name, "eth"});
      if (!line.to.empty()) cluster.shared_links = {line};
    }
    Job job = testing::free_job(8, 8);
    job.framework = below(2) == 0 ? Framework::kAny : Framework::kMegatron;
    const SearchSetting setting(std::move(cluster), job);
    Layout layout;
    const int shape = below(3), cut = 1 + below(7);
    if (shape == 0) {
      layout.replicas = {{{{{0}, 1}, {{1}, 2}, {{2}, 2}, {{3}, 3}}, 8, 1 << below(3)}};
    } else if (shape == 1) {
      layout.replicas = {{{{{0}, cut}, {{1}, 8 - cut}}, 4, 1 << below(2)},
                         {{{{2}, 8 - cut}, {{3}, cut}}, 4, 2}};
    } else {
      layout.chunks = 2;
      layout.replicas = {{{{{0}, 1}, {{1}, 1}, {{2}, 1}, {{3}, 1}}, 8, 1 + below(2)}};
    }
    layout.schedule = layout.chunks > 1
                          ? (below(2) == 0 ? Schedule::kInterleaved : Schedule::kInterleavedZeroBubble)
                          : std::array{Schedule::kGPipe, Schedule::kOneForwardOneBackward,
                                       Schedule::kZeroBubbleH1}[static_cast<std::size_t>(below(3))];
    const Plan plan = plan_of(setting.context, setting.job, layout);
    EXPECT_LE(lower_bound(plan, setting.view), simulate(plan, setting.view, {}).step_seconds * (1 + 1e-9));
  }
}

TEST(LowerBound, CountsWhatASharedLinkCarries) {
  auto cluster = make_cluster({{"a", 2}, {"b", 2}}, 1e6);
  cluster.shared_links = {{"wan", {{"a0", "eth"}, {"a1", "eth"}}, {{"b0", "eth"}, {"b1", "eth"}}, 1e4}};
  const ClusterView view(cluster, "per-peer", {});
  // Two pipelines, each from a to b, send the activations of all 8 rows.
  const Plan plan = simple_plan(small_model(4), {"a0", "a1", "b0", "b1"}, 2, 2, 8);
  const double seconds = 8 * plan.job.model.boundary_bytes() / 1e4;
  EXPECT_GE(lower_bound(plan, view), seconds);
  EXPECT_NEAR(lower_bound(plan, view), simulate(plan, view, {}).step_seconds, 0.2 * seconds);
}

TEST(LowerBound, OfInterleavedStagesOnAFastNetworkIsTheStep) {
  const auto cluster = make_cluster({{"a", 2}}, 1e15);
  const ClusterView view(cluster, "per-peer", {});
  Plan plan = simple_plan(small_model(8), {"a0", "a1"}, 2, 1, 8);
  plan.job.schedule = Schedule::kInterleaved;
  plan.job.chunks = 2;
  plan.pipelines = equal_pipelines(plan.job, to_stages({2, 2, 2, 2}));
  const double step = simulate(plan, view, {}).step_seconds;
  EXPECT_NEAR(lower_bound(plan, view), step, 0.05 * step);
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

}  // namespace
}  // namespace tombolo::planner
