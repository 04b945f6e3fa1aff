#include "tests/simulation/runs/connection_run.h"

#include <gtest/gtest.h>

#include "tests/simulation/shrink.h"

namespace tombolo::simulation {
namespace {

TEST(ConnectionRun, ASeedTakesTheSameTurnsEachTime) {
  for (std::uint64_t seed = 1; seed <= 20; ++seed) {
    const Plan plan = draw_plan(seed);
    const Verdict one = run_connection(plan), again = run_connection(plan);
    EXPECT_EQ(one.turns, again.turns) << seed;
    EXPECT_EQ(one.seconds, again.seconds) << seed;
    EXPECT_EQ(one.messages, again.messages) << seed;
    EXPECT_EQ(one.wrong, "") << seed;
  }
}

TEST(ConnectionRun, WithoutFaultsAllMessagesArrive) {
  for (std::uint64_t seed = 1; seed <= 20; ++seed) {
    Plan plan = draw_plan(seed);
    plan.faults.clear();
    const Verdict verdict = run_connection(plan);
    EXPECT_EQ(verdict.wrong, "") << seed;
    EXPECT_EQ(verdict.messages, plan.messages.size()) << seed;
    EXPECT_FALSE(verdict.failed) << seed;
  }
}

TEST(ConnectionRun, StreamsBreakAndComeBack) {
  Plan plan;
  plan.seed = 1;
  for (int i = 0; i < 20; ++i) plan.messages.push_back({0, 50'000, std::chrono::milliseconds(10)});
  for (int i = 1; i <= 4; ++i) {
    Fault fault;
    fault.at = i * std::chrono::milliseconds(50);
    plan.faults.push_back(fault);
  }
  const Verdict verdict = run_connection(plan);
  EXPECT_EQ(verdict.wrong, "");
  EXPECT_EQ(verdict.messages, plan.messages.size());
  EXPECT_GE(verdict.breaks, 4u);
  EXPECT_GE(verdict.rejoins, 4u);
}

TEST(Shrink, LeavesOutWhatADefectDoesNotNeed) {
  RunOptions options;
  options.defect = Defect::kWrongSize;
  std::uint64_t seed = 1;
  while (run_connection(draw_plan(seed), options).ok()) ++seed;
  const Plan plan = shrink(draw_plan(seed), options);
  EXPECT_FALSE(run_connection(plan, options).ok());
  EXPECT_TRUE(plan.faults.empty()) << describe(plan);
  EXPECT_EQ(plan.messages.size(), 1u) << describe(plan);
}

TEST(Shrink, LeavesAPlanAloneThatGoesWell) {
  EXPECT_EQ(shrink(draw_plan(1)), draw_plan(1));
}

}  // namespace
}  // namespace tombolo::simulation
