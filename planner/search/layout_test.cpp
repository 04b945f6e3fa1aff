#include "planner/search/layout.h"

#include <gtest/gtest.h>

#include "planner/testing/testing_search.h"

namespace tombolo::planner {
namespace {

using testing::free_job;
using testing::gpu_cluster;
using testing::SearchSetting;

/// Two replicas: one of two slots, of which the first has two ranks, and one of a single slot.
Layout two_unlike_replicas() {
  Layout layout;
  layout.replicas = {{{{{0, 1}, 3}, {{4}, 5}}, 6, 2}, {{{{3}, 8}}, 2, 1}};
  layout.saving = {Recompute::kFull, Sharding::kOptimizer};
  return layout;
}

TEST(Layout, BecomesAPlanAndBack) {
  const SearchSetting setting(gpu_cluster({{"a", 2, 2}, {"b", 1, 1}}, 1e8), free_job(8, 8));
  Layout layout = two_unlike_replicas();
  const Plan plan = plan_of(setting.context, setting.job, layout);
  EXPECT_EQ(layout_of(setting.context, plan), layout);
  EXPECT_EQ(plan.ranks.size(), 4u);
  EXPECT_EQ(plan.left_out, (std::vector<IdleDevice>{{"a1", 0}})) << "no slot takes launcher rank 2";
  // The others are numbered anew, in the launcher's order: rank 3 becomes 2.
  EXPECT_EQ(plan.ranks[2].host, "a1");
  EXPECT_EQ(plan.ranks[2].device, 1);
  EXPECT_EQ(plan.ranks[2].replica, 1);
  EXPECT_EQ(plan.stage(0, 0).tensor, 2);
  EXPECT_EQ(plan.job.recompute, Recompute::kFull);
  EXPECT_FALSE(layout.uniform());
}

TEST(Layout, ChunksBecomeVirtualStages) {
  const SearchSetting setting(gpu_cluster({{"a", 2, 1}}, 1e8), free_job(12, 4));
  Layout layout;
  layout.replicas = {{{{{0}, 4}, {{1}, 2}}, 4, 1}};
  layout.schedule = Schedule::kInterleaved;
  layout.chunks = 2;
  const Plan plan = plan_of(setting.context, setting.job, layout);
  EXPECT_EQ(plan.stages(), (std::vector<Stage>{{0, 4}, {4, 2}, {6, 4}, {10, 2}}));
  EXPECT_EQ(layout_of(setting.context, plan), layout);
  EXPECT_TRUE(layout.uniform());
}

TEST(Scorer, HasNoTimeForWhatCannotBe) {
  const SearchSetting setting(gpu_cluster({{"a", 2, 2}, {"b", 1, 1}}, 1e8), free_job(8, 8));
  Scorer scorer(setting.context, setting.job);
  const double seconds = scorer.seconds(two_unlike_replicas());
  EXPECT_GT(seconds, 0);
  EXPECT_LT(seconds, Scorer::kNever);
  EXPECT_EQ(scorer.simulated(), 1);
  EXPECT_EQ(scorer.plan(two_unlike_replicas()).prediction.step_seconds, seconds);
  EXPECT_EQ(scorer.seconds(two_unlike_replicas(), seconds), Scorer::kNever) << "no faster than the limit";
  const auto impossible = [&](const char* why, const auto& change) {
    Layout layout = two_unlike_replicas();
    change(layout);
    EXPECT_EQ(scorer.seconds(layout), Scorer::kNever) << why;
  };
  const std::int64_t before = scorer.simulated();
  impossible("a layer too few", [](Layout& one) { --one.replicas[0].slots[0].layers; });
  impossible("a slot without layers", [](Layout& one) {
    one.replicas[0].slots[0].layers = 0;
    one.replicas[0].slots[1].layers = 8;
  });
  impossible("a row too many", [](Layout& one) { ++one.replicas[1].rows; });
  impossible("rows that the micro-batch does not divide",
             [](Layout& one) { one.replicas[0].micro_batch = 4; });
  impossible("three ranks for four heads", [](Layout& one) { one.replicas[0].slots[0].ranks = {0, 1, 2}; });
  EXPECT_EQ(scorer.simulated(), before) << "none of them was simulated";
}

TEST(Scorer, ReplicasMustBeAlikeWhereTheTrainerNeedsThat) {
  SearchSetting setting(gpu_cluster({{"a", 2, 2}, {"b", 1, 1}}, 1e8), free_job(8, 8));
  setting.options.uneven_replicas = false;
  EXPECT_EQ(Scorer(setting.context, setting.job).seconds(two_unlike_replicas()), Scorer::kNever);
}

TEST(Scorer, WhatLacksMemoryIsNotSimulated) {
  SearchSetting setting(gpu_cluster({{"a", 2, 2}, {"b", 1, 1}}, 1e8), free_job(8, 8));
  setting.cluster.hosts[2].devices[0].memory_bytes = 1000;
  Scorer scorer(setting.context, setting.job);
  EXPECT_EQ(scorer.seconds(two_unlike_replicas()), Scorer::kNever);
  EXPECT_EQ(scorer.simulated(), 0);
}

}  // namespace
}  // namespace tombolo::planner
