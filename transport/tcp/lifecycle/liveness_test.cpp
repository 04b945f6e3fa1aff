#include "transport/tcp/lifecycle/liveness.h"

#include <gtest/gtest.h>

namespace tombolo::transport::tcp {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;
using Verdict = Liveness::Verdict;

constexpr Duration kIdle = seconds(8);

class LivenessOfAPeer : public testing::Test {
 protected:
  LivenessOfAPeer() { liveness_.look(start_); }
  TimePoint at(Duration since) const { return start_ + since; }

  TimePoint start_ = TimePoint{} + seconds(1000);
  Liveness liveness_{kIdle};
};

TEST_F(LivenessOfAPeer, IsDatedByTheLookThatFollowsAMovement) {
  EXPECT_FALSE(liveness_.look(at(seconds(1)))) << "nothing moved since the first";
  liveness_.moved();
  EXPECT_EQ(liveness_.quiet_for(at(seconds(2))), seconds(2));
  EXPECT_TRUE(liveness_.look(at(seconds(2))));
  EXPECT_EQ(liveness_.quiet_for(at(seconds(2))), Duration::zero());
}

TEST_F(LivenessOfAPeer, IsCheckedAtMostSoOften) {
  liveness_.checked(at(seconds(1)));
  EXPECT_EQ(liveness_.next_check(milliseconds(100)), at(milliseconds(1100)));
  EXPECT_EQ(liveness_.next_check(milliseconds(1)), at(milliseconds(1001)));
  EXPECT_TRUE(liveness_.arrivals_due(at(seconds(1)), milliseconds(1)));
  EXPECT_FALSE(liveness_.arrivals_due(at(seconds(1)), milliseconds(1)));
  EXPECT_TRUE(liveness_.paths_due(at(seconds(2)), milliseconds(100))) << "each for itself";
  EXPECT_FALSE(liveness_.paths_due(at(milliseconds(2001)), milliseconds(100)));
}

TEST_F(LivenessOfAPeer, IsDoubtedOnlyByAnEndThatWaitsAndHasAStream) {
  EXPECT_FALSE(liveness_.overdue(at(kIdle - milliseconds(1)), true));
  EXPECT_TRUE(liveness_.overdue(at(kIdle), true));
  EXPECT_FALSE(liveness_.overdue(at(kIdle), false));
  EXPECT_FALSE(liveness_.overdue(at(kIdle), true)) << "the time counts from when it began to wait";
  liveness_.asked();
  EXPECT_TRUE(liveness_.is_asked());
  EXPECT_TRUE(liveness_.overdue(at(2 * kIdle), false)) << "its owner waits";
  EXPECT_FALSE(liveness_.is_asked());
  EXPECT_FALSE(liveness_.overdue(at(2 * kIdle), false)) << "nobody has asked since";
  liveness_.alone(at(kIdle));
  EXPECT_FALSE(liveness_.overdue(at(9 * kIdle), true)) << "judge_alone() decides then";
}

TEST_F(LivenessOfAPeer, WhoseHostAnswersMayComputeButNotRefuseBytesForEver) {
  EXPECT_EQ(liveness_.judge(at(kIdle), kIdle, false), Verdict::kHostSilent);
  EXPECT_EQ(liveness_.judge(at(kIdle), kIdle, true), Verdict::kHostSilent);
  EXPECT_EQ(liveness_.judge(at(100 * kIdle), Duration::zero(), false), Verdict::kWait);
  EXPECT_EQ(liveness_.judge(at(10 * kIdle - milliseconds(1)), Duration::zero(), true), Verdict::kWait);
  EXPECT_EQ(liveness_.judge(at(10 * kIdle), Duration::zero(), true), Verdict::kStalled);
}

TEST_F(LivenessOfAPeer, WithoutStreamsIsGivenUpSoonerTheMoreSpeaksAgainstIt) {
  struct Case {
    const char* what;
    Liveness::WhileAlone known;
    Duration after;
    Verdict verdict;
  };
  for (const Case& one :
       {Case{"streams broke", {}, kIdle, Verdict::kNoneBack},
        Case{"all ended", {true, true, 0}, seconds(5), Verdict::kVanished},
        Case{"all ended, and nobody to ask", {true, false, 0}, milliseconds(500), Verdict::kVanished},
        Case{"a few attempts turned away", {false, true, 9}, kIdle, Verdict::kNoneBack},
        Case{"a proxy without a backend", {false, true, 10}, seconds(5), Verdict::kVanished}}) {
    Liveness liveness(kIdle);
    EXPECT_EQ(liveness.judge_alone(at(seconds(100)), one.known), Verdict::kWait) << "it is not alone";
    liveness.alone(at(seconds(1)));
    EXPECT_EQ(liveness.judge_alone(at(seconds(1) + one.after - milliseconds(1)), one.known), Verdict::kWait)
        << one.what;
    EXPECT_EQ(liveness.judge_alone(at(seconds(1) + one.after), one.known), one.verdict) << one.what;
    liveness.not_alone();
    EXPECT_EQ(liveness.judge_alone(at(seconds(100)), one.known), Verdict::kWait) << one.what;
  }
}

TEST_F(LivenessOfAPeer, IsGivenTheIdleTimeoutAtMost) {
  Liveness hasty(milliseconds(300));
  hasty.alone(start_);
  EXPECT_EQ(hasty.judge_alone(at(milliseconds(300)), {true, true, 0}), Verdict::kVanished);
  EXPECT_EQ(hasty.judge_alone(at(milliseconds(299)), {true, true, 10}), Verdict::kWait);
}

TEST_F(LivenessOfAPeer, StreamsThatEndedBehindChunksAreGivenUpLaterWhileAnAttemptIsUnderWay) {
  EXPECT_FALSE(liveness_.gives_up_ended(at(milliseconds(499)), false));
  EXPECT_TRUE(liveness_.gives_up_ended(at(milliseconds(500)), false));
  EXPECT_FALSE(liveness_.gives_up_ended(at(milliseconds(4999)), true));
  EXPECT_TRUE(liveness_.gives_up_ended(at(seconds(5)), true));
}

TEST_F(LivenessOfAPeer, APathIsSilentAfterAWhileOrFourRoundTrips) {
  liveness_.joined(0, start_);
  const auto silent = [&](Duration now, Duration unanswered, Duration round_trip) {
    return liveness_.path_is_silent(0, at(now), unanswered, round_trip);
  };
  EXPECT_FALSE(silent(seconds(10), Duration::zero(), {})) << "it waits for no answer";
  // The kernel's clock runs since the last answer, long ago; ours since it last waited for none.
  EXPECT_FALSE(silent(milliseconds(10'199), seconds(10), {}));
  EXPECT_TRUE(silent(milliseconds(10'200), seconds(10), {}));
  EXPECT_FALSE(silent(milliseconds(10'200), seconds(10), milliseconds(200)));
  EXPECT_TRUE(silent(milliseconds(10'600), seconds(10), milliseconds(200)));
  EXPECT_FALSE(silent(seconds(11), milliseconds(399), {})) << "the kernel had an answer since";
}

TEST_F(LivenessOfAPeer, APathThatWasThereFromTheBeginningHasItsKernelsWord) {
  EXPECT_FALSE(liveness_.path_is_silent(3, at({}), milliseconds(399), {}));
  EXPECT_TRUE(liveness_.path_is_silent(3, at({}), milliseconds(400), {}));
}

TEST_F(LivenessOfAPeer, PingsComeLessAndLessOftenUntilSomethingMoves) {
  std::vector<int> pings;
  const auto ping_until = [&](int from, int to) {
    pings.clear();
    for (int ms = from; ms <= to; ms += 100) {
      liveness_.look(at(milliseconds(ms)));
      if (liveness_.ping_due(at(milliseconds(ms)))) pings.push_back(ms);
    }
  };
  ping_until(0, 9000);
  EXPECT_EQ(pings, (std::vector{300, 900, 2100, 4100, 6100, 8100}));
  liveness_.moved();
  ping_until(9100, 10'000);
  EXPECT_EQ(pings, (std::vector{9400, 10'000}));
}

}  // namespace
}  // namespace tombolo::transport::tcp
