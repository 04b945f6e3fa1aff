#include "planner/explain/sensitivity.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "planner/simulate/simulator.h"
#include "planner/testing/testing.h"

namespace tombolo::planner {
namespace {

double step_after(const std::vector<Sensitivity>& found, std::string_view change) {
  const auto at = std::ranges::find_if(found, [&](const auto& one) { return one.change == change; });
  EXPECT_NE(at, found.end()) << change;
  return at == found.end() ? 0 : at->step_seconds;
}

TEST(Sensitivities, SayWhatEachPartOfTheClusterWouldBring) {
  // One stage in each cluster; the link is so slow that nothing else matters.
  const auto cluster = testing::make_cluster({{"a", 1}, {"b", 1}}, 1e5, 2e-3);
  const Plan plan = testing::simple_plan(testing::small_model(4), {"a0", "b0"}, 2, 1, 8);
  const double now = simulate(plan, cluster).step_seconds;
  const auto found = sensitivities(plan, cluster);
  EXPECT_EQ(found.front().change, "twice the rate between a and b");
  EXPECT_NEAR(found.front().step_seconds, now / 2, 0.1 * now);
  EXPECT_LT(step_after(found, "half the latency between a and b"), now);
  EXPECT_LE(step_after(found, "devices of a 1.2 times as fast"), now);
  EXPECT_TRUE(std::ranges::is_sorted(found, {}, &Sensitivity::step_seconds));
}

TEST(Sensitivities, LeaveALatencyOfMicrosecondsAlone) {
  const auto cluster = testing::make_cluster({{"a", 1}, {"b", 1}}, 1e7, 1e-5);
  const auto found =
      sensitivities(testing::simple_plan(testing::small_model(4), {"a0", "b0"}, 2, 1, 8), cluster);
  EXPECT_EQ(found.size(), 3U) << "the rate, and the devices of both";
}

}  // namespace
}  // namespace tombolo::planner
