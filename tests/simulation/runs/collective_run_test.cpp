#include "tests/simulation/runs/collective_run.h"

#include <gtest/gtest.h>

namespace tombolo::simulation {
namespace {

using collectives::Collective;

CollectivePlan plan_of(unsigned ranks) {
  CollectivePlan plan;
  plan.network.seed = 5;
  plan.clusters.assign(ranks, 0);
  plan.algorithm = "auto";
  return plan;
}

CollectiveStep step_of(Collective collective, std::size_t count) {
  CollectiveStep step;
  step.collective = collective;
  step.count = count;
  return step;
}

class CollectiveRuns : public testing::TestWithParam<Over> {};
INSTANTIATE_TEST_SUITE_P(CollectiveRun, CollectiveRuns, testing::Values(Over::kTcp, Over::kShm),
                         [](const auto& one) { return name_of(one.param); });

TEST_P(CollectiveRuns, ASeedTakesTheSameTurnsEachTime) {
  for (std::uint64_t seed = 1; seed <= 15; ++seed) {
    const CollectivePlan plan = draw_collective_plan(seed, GetParam());
    const Verdict one = run_collectives(plan), again = run_collectives(plan);
    EXPECT_EQ(one.turns, again.turns) << seed;
    EXPECT_EQ(one.course, again.course) << seed;
    EXPECT_EQ(one.seconds, again.seconds) << seed;
    EXPECT_EQ(one.wrong, "") << seed;
  }
}

TEST(CollectiveRun, WithoutFaultsEveryRankCompletesEveryStep) {
  for (const unsigned ranks : {2U, 3U, 6U}) {
    CollectivePlan plan = plan_of(ranks);
    plan.halves = true;
    for (const Collective collective : collectives::kAllCollectives) {
      plan.steps.push_back(step_of(collective, 500));
      plan.steps.push_back(plan.steps.back());
      plan.steps.back().in_half = true;
      // And once more, only started.
      plan.steps.push_back(step_of(collective, 700));
      plan.steps.back().started = true;
    }
    const Verdict verdict = run_collectives(plan);
    EXPECT_EQ(verdict.wrong, "") << ranks;
    EXPECT_FALSE(verdict.failed) << ranks;
    EXPECT_EQ(verdict.messages, ranks * plan.steps.size());
  }
}

TEST(CollectiveRun, ARankThatDiesFailsTheOthersInTime) {
  for (const unsigned victim : {0U, 2U}) {
    CollectivePlan plan = plan_of(3);
    for (int i = 0; i < 200; ++i) plan.steps.push_back(step_of(Collective::kAllReduce, 2000));
    Fault kill;
    kill.kind = Fault::Kind::kKill;
    kill.at = std::chrono::milliseconds(30);
    kill.host = victim;
    plan.network.faults.push_back(kill);
    const Verdict verdict = run_collectives(plan);
    EXPECT_EQ(verdict.wrong, "") << victim;
    EXPECT_TRUE(verdict.failed) << victim;
    EXPECT_LT(verdict.messages, 3 * plan.steps.size()) << victim;
  }
}

TEST(CollectiveRun, ARankThatIsAbortedFailsTheOthers) {
  CollectivePlan plan = plan_of(4);
  for (int i = 0; i < 200; ++i) plan.steps.push_back(step_of(Collective::kAllReduce, 2000));
  plan.abort = CollectivePlan::Abort{1, std::chrono::milliseconds(30)};
  const Verdict verdict = run_collectives(plan);
  EXPECT_EQ(verdict.wrong, "");
  EXPECT_TRUE(verdict.failed);
  EXPECT_LT(verdict.messages, 4 * plan.steps.size());
}

TEST(CollectiveRun, StreamsThatBreakAreCounted) {
  CollectivePlan plan = plan_of(3);
  for (int i = 0; i < 200; ++i) plan.steps.push_back(step_of(Collective::kAllReduce, 2000));
  const Verdict without = run_collectives(plan);
  for (int i = 1; i <= 3; ++i) {
    Fault reset;
    reset.at = i * std::chrono::milliseconds(30);
    plan.network.faults.push_back(reset);
  }
  const Verdict verdict = run_collectives(plan);
  EXPECT_EQ(without.breaks, 0u);
  EXPECT_EQ(verdict.wrong, "");
  EXPECT_GE(verdict.breaks, 3u);
  EXPECT_GE(verdict.rejoins, 3u);
}

TEST(CollectiveRun, AByteThatIsLostIsSeen) {
  CollectivePlan plan = plan_of(2);
  plan.steps.push_back(step_of(Collective::kAllGather, 4000));
  plan.steps.push_back(step_of(Collective::kAllGather, 4000));
  EXPECT_EQ(run_collectives(plan).wrong, "");
  RunOptions options;
  options.defect = Defect::kLostByte;
  EXPECT_NE(run_collectives(plan, options).wrong, "");
}

}  // namespace
}  // namespace tombolo::simulation
