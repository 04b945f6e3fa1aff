#include "tests/simulation/runs/connection_run.h"

#include <gtest/gtest.h>

namespace tombolo::simulation {
namespace {

class ConnectionRuns : public testing::TestWithParam<Over> {};
INSTANTIATE_TEST_SUITE_P(ConnectionRun, ConnectionRuns, testing::Values(Over::kTcp, Over::kShm),
                         [](const auto& one) { return name_of(one.param); });

TEST_P(ConnectionRuns, ASeedTakesTheSameTurnsEachTime) {
  for (std::uint64_t seed = 1; seed <= 20; ++seed) {
    const Plan plan = draw_plan(seed, GetParam());
    const Verdict one = run_connection(plan), again = run_connection(plan);
    EXPECT_EQ(one.turns, again.turns) << seed;
    EXPECT_EQ(one.course, again.course) << seed;
    EXPECT_EQ(one.seconds, again.seconds) << seed;
    EXPECT_EQ(one.messages, again.messages) << seed;
    EXPECT_EQ(one.wrong, "") << seed;
  }
}

TEST_P(ConnectionRuns, WithoutFaultsAllMessagesArrive) {
  for (std::uint64_t seed = 1; seed <= 20; ++seed) {
    Plan plan = draw_plan(seed, GetParam());
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

// No chunk ever shows the sender's end that its words about broken streams have been heard; and a receiver
// takes only 512 of them at once from a peer that says ever new ones.
TEST(ConnectionRun, AStreamMayBreakVeryOftenWhereMessagesGoOneWay) {
  constexpr int kFaults = 1000;
  for (const unsigned sender : {0U, 1U}) {
    Plan plan;
    plan.seed = 7 + sender;
    for (int i = 0; i < kFaults; ++i) {
      plan.messages.push_back({sender, 20'000, std::chrono::milliseconds(35)});
      Fault fault;
      fault.at = (i + 1) * std::chrono::milliseconds(35);
      plan.faults.push_back(fault);
    }
    const Verdict verdict = run_connection(plan);
    EXPECT_EQ(verdict.wrong, "") << "from host " << sender;
    EXPECT_EQ(verdict.messages, plan.messages.size());
    EXPECT_GT(verdict.breaks, 512U + 28U) << "from host " << sender;
  }
}

}  // namespace
}  // namespace tombolo::simulation
