// The words and the JSON of changes that plan_test.cpp, with real plans, does not come to.
#include "tools/commands/plan_changes.h"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "planner/testing/testing.h"
#include "tools/cli/testing.h"

namespace tombolo::tools {
namespace {

planner::Replan made_up_replan() {
  planner::Replan replan;
  replan.plan = planner::testing::simple_plan(planner::testing::small_model(4), {"a0", "b0"}, 2, 1, 4);
  replan.plan.prediction.step_seconds = 0.5;
  replan.running_step = 2;
  replan.steps_to_pay = 12.4;
  replan.moving.bytes = 3 << 20;
  replan.moving.checkpoint_bytes = 1 << 20;
  replan.moving.seconds = 6;
  replan.moving.transfers = {{"a0", "b0", 2 << 20, 6}, {"", "b0", 1 << 20, 0}};
  return replan;
}

TEST(PlanChanges, SayWhatMovesFromWhereAndAfterHowManyStepsThatHasPaid) {
  const std::string text = describe_replan(made_up_replan(), 1000);
  EXPECT_MENTIONS(
      text,
      "The running plan would take 2 s per step here; this one takes 500 ms, and has paid for its "
      "moving after 12 steps.\n");
  EXPECT_MENTIONS(text, "What moves: 3 MiB, 6 s, 1 MiB of it from the checkpoint.\n");
  EXPECT_MENTIONS(text, "a0          b0  2 MiB  6 s\n");
  EXPECT_MENTIONS(text, "checkpoint  b0  1 MiB  -\n");
  const Json json = replan_json(made_up_replan());
  EXPECT_FALSE(json.at("keep").get<bool>());
  EXPECT_EQ(json.at("steps_to_pay"), 12.4);
  EXPECT_FALSE(json.contains("why_not"));
  EXPECT_EQ(json.at("checkpoint_bytes"), 1 << 20);
  EXPECT_EQ(json.at("moves")[0].at("from"), "a0");
  EXPECT_FALSE(json.at("moves")[1].contains("from")) << "from the checkpoint";
}

TEST(PlanChanges, SayWhyAPlanCannotGoOn) {
  planner::Replan replan = made_up_replan();
  replan.running_step = 0;
  replan.why_not = "host a1 is gone";
  replan.moving = {};
  const std::string text = describe_replan(replan, 1000);
  EXPECT_EQ(text, "The running plan cannot go on: host a1 is gone\nWhat moves: nothing moves.\n");
  const Json json = replan_json(replan);
  EXPECT_EQ(json.at("why_not"), "host a1 is gone");
  EXPECT_FALSE(json.contains("running_step_seconds"));
  EXPECT_EQ(json.at("moves"), Json::array());
}

TEST(PlanChanges, SayThatAPlanGoesOn) {
  planner::Replan replan = made_up_replan();
  replan.keep = true;
  const std::string text = describe_replan(replan, 1000);
  EXPECT_MENTIONS(text, "The running plan goes on: 500 ms per step here");
  EXPECT_MENTIONS(text, "within 1000 steps.\n");
}

TEST(PlanChanges, AScenarioWithoutAPlanHasTheProblemInPlaceOfFigures) {
  planner::Plan today = made_up_replan().plan;
  Scenario lost;
  lost.text = "lose b";
  lost.problem = "too little memory";
  Scenario slower;
  slower.text = "link a b 1Gbit";
  slower.unchanged_step = 0.75;
  slower.plan = today;
  slower.plan.prediction.step_seconds = 0.625;
  const std::vector<Scenario> both{lost, slower};
  const std::string text = describe_scenarios(today, both);
  EXPECT_MENTIONS(text, "cannot run");
  EXPECT_MENTIONS(text, "no plan");
  EXPECT_MENTIONS(text, "\"lose b\": too little memory\n");
  EXPECT_MENTIONS(text, "0.80x");
  EXPECT_MENTIONS(text, "nothing moves");
  const Json json = scenarios_json(today, both);
  EXPECT_EQ(json[0], (Json{{"what_if", "lose b"}, {"problem", "too little memory"}}));
  EXPECT_EQ(json[1].at("unchanged_step_seconds"), 0.75);
  EXPECT_EQ(json[1].at("speedup"), 0.8);
  EXPECT_EQ(json[1].at("moved_bytes"), 0);
}

}  // namespace
}  // namespace tombolo::tools
