// Drawings of timelines; plan_report_test.cpp has the names of their rows.
#include "tools/reports/timeline.h"

#include <gtest/gtest.h>

#include "planner/testing/testing.h"
#include "tools/cli/testing.h"

namespace tombolo::tools {
namespace {

planner::Plan timeline_plan() {
  return planner::testing::simple_plan(planner::testing::small_model(2), {"a0", "b0"}, 2, 1, 1);
}

TEST(Timeline, TellsComputingFromTransfers) {
  for (const char* name : {"forward", "backward", "weight gradients", "optimizer"})
    EXPECT_FALSE(is_transfer({0, name, 0, 0, 1})) << name;
  for (const char* name : {"send", "all-reduce", "anything else"})
    EXPECT_TRUE(is_transfer({0, name, 0, 0, 1})) << name;
}

TEST(Timeline, DrawsComputingAboveTheNetworkOnOneScale) {
  // 690 pixels are 0.1 s, from x = 190.
  const std::string drawing = draw_timeline(
      timeline_plan(), {0, 1},
      {{0, "forward", 3, 0.01, 0.03}, {1, "send", 3, 0.03, 0.05}, {1, "weight gradients", -1, 0.05, 0.06}},
      0.1, "a <step>");
  EXPECT_MENTIONS(drawing, "aria-label=\"a &lt;step&gt;\"");
  EXPECT_MENTIONS(drawing,
                  "<rect x=\"259.00\" y=\"6.00\" width=\"137.40\" height=\"15.00\" rx=\"1.0\" "
                  "class=\"t-forward\"><title>forward of micro-batch 3: 20 ms from 10.0 ms</title>");
  // The second rank's rows begin 35 lower; its network's 17 below its computing.
  EXPECT_MENTIONS(drawing,
                  "<rect x=\"397.00\" y=\"58.00\" width=\"137.40\" height=\"9.00\" rx=\"1.0\" "
                  "class=\"t-transfer\">");
  EXPECT_MENTIONS(drawing,
                  "y=\"41.00\" width=\"68.40\" height=\"15.00\" rx=\"1.0\" class=\"t-weights\"><title>weight "
                  "gradients: 10 ms");
  EXPECT_MENTIONS(drawing, ">100 ms</text>");
  EXPECT_MENTIONS(drawing, ">stage 1, replica 0</text>");
}

TEST(Timeline, LongStepsAreInSeconds) {
  // 690 pixels are 20 s.
  const std::string drawing = draw_timeline(timeline_plan(), {0}, {{0, "forward", 0, 10, 20}}, 20, "");
  EXPECT_MENTIONS(drawing, "<rect x=\"535.00\" y=\"6.00\" width=\"344.40\"");
  EXPECT_MENTIONS(drawing, ">20 s</text>");
  EXPECT_EQ(drawing.find(" ms</text>"), std::string::npos) << drawing;
}

TEST(Timeline, LeavesOutRanksThatAreNotShownOrNotThere) {
  const std::string drawing = draw_timeline(
      timeline_plan(), {1},
      {{0, "forward", 0, 0, 1}, {-1, "forward", 0, 0, 1}, {2, "forward", 0, 0, 1}, {1, "backward", 0, 0, 1}},
      1, "");
  EXPECT_EQ(drawing.find("t-forward"), std::string::npos) << drawing;
  EXPECT_MENTIONS(drawing, "t-backward");
  EXPECT_EQ(drawing.find("rank 0"), std::string::npos) << drawing;
}

TEST(Timeline, AShortBarCanStillBeSeen) {
  EXPECT_MENTIONS(draw_timeline(timeline_plan(), {0}, {{0, "optimizer", -1, 0.5, 0.5}}, 1, ""),
                  "width=\"0.60\" height=\"15.00\"");
}

TEST(Timeline, OfNoTimeHasNoFiguresThatAreNone) {
  const std::string drawing = draw_timeline(timeline_plan(), {0, 1}, {{0, "forward", 0, 0, 0}}, 0, "");
  EXPECT_EQ(drawing.find("nan"), std::string::npos) << drawing;
  EXPECT_EQ(drawing.find("\"inf"), std::string::npos) << drawing;
}

TEST(Timeline, NamesTensorParallelRanksThatAreNotNeighbours) {
  planner::Plan plan = timeline_plan();
  plan.ranks = {{"a0", 0, 0, 0, 0}, {"a0", 1, 1, 0, 0}, {"a0", 2, 0, 0, 1}, {"a0", 3, 1, 0, 1}};
  EXPECT_EQ(group_name(plan, 0), "rank 0, 1 more on a0");
  plan.job.framework = planner::Framework::kMegatron;
  EXPECT_EQ(group_name(plan, 0), "a0, 2 devices");
  plan.ranks = {{"a0", 4, 0, 0, 0}, {"a0", 5, 0, 0, 1}, {"a0", 6, 1, 0, 0}};
  EXPECT_EQ(group_name(plan, 0), "a0, devices 4-5");
  EXPECT_EQ(group_name(plan, 2), "a0, device 6");
}

}  // namespace
}  // namespace tombolo::tools
