#include "tools/reports/plan_report.h"

#include <gtest/gtest.h>

#include "planner/testing/testing.h"
#include "tools/reports/plan_page.h"
#include "tools/reports/timeline.h"

namespace tombolo::tools {
namespace {

using planner::testing::make_cluster;
using planner::testing::simple_plan;
using planner::testing::small_model;

TEST(TimelineText, ShowsTheKindThatFillsMostOfACell) {
  const planner::Plan plan = simple_plan(small_model(2), {"a0", "b0"}, 2, 1, 1);
  planner::Simulation simulation;
  simulation.step_seconds = 10;
  simulation.spans = {{0, "forward", 0, 0, 2},     {0, "backward", 0, 2.2, 6}, {0, "all-reduce", -1, 6, 8},
                      {0, "optimizer", -1, 8, 10}, {1, "forward", 0, 2, 2.4},  {1, "send", 0, 3, 9}};
  EXPECT_EQ(timeline_text(plan, simulation, 5).substr(0, 34),
            "   0 s0r0  FBBrO\n"
            "   1 s1r0  .....\n")
      << "of rank 1 no cell is filled by half, and transfers do not show";
}

TEST(TimelineNames, AreThoseOfATensorParallelGroup) {
  planner::Plan plan = simple_plan(small_model(2), {"a0", "a1", "a1"}, 3, 1, 1);
  EXPECT_EQ(group_name(plan, 1), "rank 1 on a1");
  EXPECT_EQ(first_ranks(plan), (std::vector<std::size_t>{0, 1, 2}));
  plan.ranks = {{"a0", 0, 0, 0, 0}, {"a1", 0, 1, 0, 0}, {"a1", 1, 1, 0, 1}};
  EXPECT_EQ(group_name(plan, 1), "ranks 1-2 on a1");
  EXPECT_EQ(first_ranks(plan), (std::vector<std::size_t>{0, 1}));
}

TEST(PlanReport, NamesStagesHostsAndTraffic) {
  const auto cluster = make_cluster({{"a", 1}, {"b", 1}}, 1.25e7, 1e-4);
  planner::Plan plan = simple_plan(small_model(4), {"a0", "b0"}, 2, 1, 4);
  plan.prediction.memory.resize(2);
  const auto simulation = planner::simulate(plan, cluster);
  const std::string report = describe_plan(plan, cluster, simulation);
  for (const char* part : {"strategy test", "routing per-peer", "0 on a0", "1 on b0"})
    EXPECT_NE(report.find(part), std::string::npos) << part << " is not in:\n" << report;
  const std::string steps = describe_simulation(plan, cluster, simulation);
  EXPECT_NE(steps.find("a0/eth  b0/eth  tcp"), std::string::npos) << steps;
}

TEST(PlanPage, IsOneDocumentThatEscapesNames) {
  auto cluster = make_cluster({{"a", 1}, {"b", 1}}, 1.25e7, 1e-4);
  planner::Plan plan = simple_plan(small_model(4), {"a0", "b0"}, 2, 1, 4);
  plan.prediction.memory.assign(2, {.parameters = 100, .total = 100});
  plan.choice = planner::Choice{.tolerance = 0.03,
                                .cases = 8,
                                .held = 7,
                                .worst = 0.04,
                                .worst_case = "a <slow> link",
                                .next = {{"pipeline <1>", 2, "slower"}}};
  const std::string page =
      plan_page(plan, cluster, planner::simulate(plan, cluster),
                {.comparison = "compared <with> others",
                 .sensitivities = {{"twice the <rate>", 0.5}},
                 .scenarios = {{"lose <b>", "", 0, 3}, {"lose <a>", "nothing <is> left", 0, 0}}});
  for (const char* part :
       {"pipeline &lt;1&gt;", "in 7 of 8 cases; at worst it takes 4.0 % longer, a &lt;slow&gt; link",
        "twice the &lt;rate&gt;", "cannot run", "lose &lt;a&gt;: nothing &lt;is&gt; left"})
    EXPECT_NE(page.find(part), std::string::npos) << part;
  EXPECT_TRUE(page.starts_with("<!DOCTYPE html>")) << page.substr(0, 80);
  EXPECT_NE(page.find("compared &lt;with&gt; others"), std::string::npos);
  EXPECT_EQ(page.find("nan"), std::string::npos);
}

}  // namespace
}  // namespace tombolo::tools
