#include <gtest/gtest.h>

#include "base/error.h"
#include "planner/testing/testing_strategies.h"

namespace tombolo::planner {
namespace {

using namespace testing;

TEST(FlashFlex, UsesDevicesOfDifferentSpeed) {
  auto cluster = make_cluster({{"fast", 1, 4, topology::NicKind::kTcp, 0, 4e9, 0},
                               {"slow", 1, 2, topology::NicKind::kTcp, 0, 1e9, 0}},
                              1e9);
  Job job;
  job.model = small_model(12);
  job.global_batch = 24;
  job.framework = Framework::kAny;
  job.tensor = 0;
  PlanOptions options;
  options.strategy = "flashflex";
  const Plan plan = make_plan(cluster, job, options);
  EXPECT_LT(plan.prediction.step_seconds, 0.7 * seconds_by(cluster, job, "megatron"));
  EXPECT_EQ(plan.ranks.size(), 6u) << "every device has a rank";
}

TEST(FlashFlex, AndAutoKeepToTheSchedulesThatAreOpen) {
  const auto cluster = make_cluster({{"a", 4, 1, topology::NicKind::kTcp, 0, 4e9, 0}}, 1e9);
  Job job;
  job.model = small_model(24);
  job.global_batch = 16;
  job.framework = Framework::kMegatron;
  job.pipeline = 4;
  for (const std::string_view strategy : {"flashflex", "auto"})
    for (const auto& schedule : {std::pair(Schedule::kInterleaved, 2), {Schedule::kInterleaved, 3}}) {
      PlanOptions options;
      options.strategy = strategy;
      options.schedules = {schedule};
      const Plan plan = make_plan(cluster, job, options);
      EXPECT_EQ(plan.job.schedule, schedule.first) << strategy;
      EXPECT_EQ(plan.job.chunks, schedule.second) << strategy;
    }
}

/// Four fast devices, and two that take longer for one layer than these for all.
topology::ClusterFile with_a_slow_host() {
  return make_cluster({{"fast", 1, 4, topology::NicKind::kTcp, 0, 4e9, 0},
                       {"slow", 1, 2, topology::NicKind::kTcp, 0, 5e7, 0}},
                      1e9);
}

TEST(FlashFlex, AndAutoLeaveSlowDevicesOutWhereTheyMay) {
  const auto cluster = with_a_slow_host();
  Job job;
  job.model = small_model(8);
  job.global_batch = 12;
  job.framework = Framework::kAny;
  job.tensor = 0;
  for (const std::string_view strategy : strategy_names({&StrategyCapabilities::leaves_devices_out})) {
    PlanOptions options;
    options.strategy = strategy;
    const Plan all = make_plan(cluster, job, options);
    EXPECT_EQ(all.ranks.size(), 6u);
    EXPECT_TRUE(all.left_out.empty());
    options.may_leave_out = true;
    const Plan some = make_plan(cluster, job, options);
    EXPECT_LT(some.prediction.step_seconds, 0.8 * all.prediction.step_seconds);
    ASSERT_EQ(some.ranks.size(), 4u);
    for (const RankPlacement& place : some.ranks) EXPECT_EQ(place.host, "fast0");
    EXPECT_EQ(some.left_out, (std::vector<IdleDevice>{{"slow0", 0}, {"slow0", 1}}));
    EXPECT_NE(some.notes.back().find("left out: 2 test of slow0: one layer takes"), std::string::npos)
        << some.notes.back();
    const Plan again = written_and_loaded(some);
    EXPECT_EQ(again.left_out, some.left_out);
    EXPECT_NEAR(simulate(again, cluster).step_seconds, some.prediction.step_seconds,
                1e-9 * some.prediction.step_seconds);
  }
  PlanOptions options;
  options.strategy = "holmes";
  options.may_leave_out = true;
  EXPECT_THROW(make_plan(cluster, job, options), Error) << "holmes gives every rank a place";
}

}  // namespace
}  // namespace tombolo::planner
