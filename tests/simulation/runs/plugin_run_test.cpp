#include "tests/simulation/runs/plugin_run.h"

#include <gtest/gtest.h>

namespace tombolo::simulation {
namespace {

class PluginRuns : public testing::TestWithParam<Over> {};
INSTANTIATE_TEST_SUITE_P(PluginRun, PluginRuns, testing::Values(Over::kTcp, Over::kShm),
                         [](const auto& one) { return name_of(one.param); });

TEST_P(PluginRuns, ASeedTakesTheSameTurnsEachTime) {
  for (std::uint64_t seed = 1; seed <= 20; ++seed) {
    const PluginPlan plan = draw_plugin_plan(seed, GetParam());
    const Verdict one = run_plugin(plan), again = run_plugin(plan);
    EXPECT_EQ(one.turns, again.turns) << seed;
    EXPECT_EQ(one.course, again.course) << seed;
    EXPECT_EQ(one.seconds, again.seconds) << seed;
    EXPECT_EQ(one.messages, again.messages) << seed;
    EXPECT_EQ(one.wrong, "") << seed;
  }
}

TEST_P(PluginRuns, WithoutFaultsAllMessagesArrive) {
  for (std::uint64_t seed = 1; seed <= 20; ++seed) {
    PluginPlan plan = draw_plugin_plan(seed, GetParam());
    plan.network.faults.clear();
    std::size_t messages = 0;
    for (CommPlan& comm : plan.comms) {
      comm.ending = CommPlan::Ending::kTogether;
      comm.other_handle_first = false;
      messages += comm.messages.size();
    }
    const Verdict verdict = run_plugin(plan);
    EXPECT_EQ(verdict.wrong, "") << seed;
    EXPECT_EQ(verdict.messages, messages) << seed;
    EXPECT_TRUE(verdict.connected) << seed;
    EXPECT_FALSE(verdict.failed) << seed;
  }
}

TEST(PluginRun, AnAbortFailsBothEnds) {
  PluginPlan plan;
  plan.network.seed = 3;
  CommPlan comm;
  comm.messages.assign(20, 50'000);
  comm.pauses.assign(20, std::chrono::milliseconds(1));
  comm.ending = CommPlan::Ending::kAbort;
  comm.receiver_aborts = true;
  comm.abort_after = 3;
  plan.comms.push_back(comm);
  const Verdict verdict = run_plugin(plan);
  EXPECT_EQ(verdict.wrong, "");
  EXPECT_TRUE(verdict.failed);
  EXPECT_GE(verdict.messages, 3u);
  EXPECT_LT(verdict.messages, 20u);
}

TEST(PluginRun, StreamsThatBreakAreCounted) {
  PluginPlan plan;
  plan.network.seed = 3;
  CommPlan comm;
  comm.messages.assign(20, 50'000);
  comm.pauses.assign(20, std::chrono::milliseconds(10));
  plan.comms.push_back(comm);
  const Verdict without = run_plugin(plan);
  for (int i = 1; i <= 3; ++i) {
    Fault reset;
    reset.at = i * std::chrono::milliseconds(50);
    plan.network.faults.push_back(reset);
  }
  const Verdict verdict = run_plugin(plan);
  EXPECT_EQ(without.breaks, 0u);
  EXPECT_EQ(verdict.wrong, "");
  EXPECT_GE(verdict.breaks, 3u);
  EXPECT_GE(verdict.rejoins, 3u);
}

/// A receive waits for a lane that its sender has given up, and behind what fills the first lane that end
/// cannot be seen; another lane's can.
TEST(PluginRun, AReceiverLearnsThatTheLaneItAwaitsWillNotCome) {
  EXPECT_EQ(run_plugin(draw_plugin_plan(32141, Over::kTcp)).wrong, "");
}

/// No lane but the first was made, and a message that no receive is posted for hides that lane's end.
TEST(PluginRun, AReceiverThatAwaitsALaneLooksWhetherItsPeerIsThere) {
  EXPECT_EQ(run_plugin(draw_plugin_plan(79732, Over::kTcp)).wrong, "");
}

TEST(PluginRun, AByteThatIsLostIsSeen) {
  PluginPlan plan;
  plan.network.seed = 3;
  CommPlan comm;
  comm.messages.assign(4, 50'000);
  comm.pauses.assign(4, Duration::zero());
  plan.comms.push_back(comm);
  EXPECT_EQ(run_plugin(plan).wrong, "");
  RunOptions options;
  options.defect = Defect::kLostByte;
  EXPECT_NE(run_plugin(plan, options).wrong, "");
}

}  // namespace
}  // namespace tombolo::simulation
