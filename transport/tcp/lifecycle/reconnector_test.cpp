#include "transport/tcp/lifecycle/reconnector.h"

#include <gtest/gtest.h>

#include <vector>

namespace tombolo::transport::tcp {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;
using State = StreamState;

class ReconnectorOfOne : public testing::Test {
 protected:
  ReconnectorOfOne() { plan_.add(0, 0); }
  TimePoint at(Duration since) const { return start_ + since; }
  /// The pauses before so many attempts that all fail at once.
  std::vector<long> pauses(State state, int attempts, bool alone = false) {
    std::vector<long> all;
    TimePoint now = at({});
    for (int i = 0; i < attempts; ++i) {
      EXPECT_TRUE(plan_.begin(0, state, kTargets, now)) << i;
      plan_.failed(0, state, kTargets, alone, now);
      all.push_back((plan_.due(0) - now) / milliseconds(1));
      EXPECT_FALSE(plan_.begin(0, state, kTargets, plan_.due(0) - Duration(1))) << i;
      now = plan_.due(0);
    }
    return all;
  }

  static constexpr std::size_t kTargets = 3;
  TimePoint start_ = TimePoint{} + seconds(1000);
  Reconnector plan_;
};

TEST_F(ReconnectorOfOne, OpensWhatHasNoSocketIsSuspectOrAway) {
  for (State state : {State::kWanted, State::kBroken, State::kEnded, State::kSuspect})
    EXPECT_TRUE(plan_.wants(0, state)) << to_text(state);
  EXPECT_FALSE(plan_.wants(0, State::kLive));
  EXPECT_FALSE(plan_.wants(0, State::kHalfClosed));
  plan_.joined(0, 1, 1, at({}));
  EXPECT_TRUE(plan_.wants(0, State::kLive)) << "it should return";
}

TEST_F(ReconnectorOfOne, ABrokenStreamIsTriedOftenAndOneThatNeverWasLessOften) {
  EXPECT_EQ(pauses(State::kBroken, 5), (std::vector<long>{40, 80, 160, 160, 160}));
  plan_.joined(0, 0, 1, at({}));
  plan_.lost(0, false, {}, at({}));
  EXPECT_EQ(pauses(State::kBroken, 3, true), (std::vector<long>{20, 20, 20})) << "no stream is live";
  Reconnector fresh;
  fresh.add(0, 0);
  plan_ = fresh;
  EXPECT_EQ(pauses(State::kWanted, 9), (std::vector<long>{40, 80, 160, 320, 640, 1280, 2560, 5000, 5000}));
  plan_.hurry(0, at({}));
  EXPECT_EQ(plan_.due(0), at(milliseconds(20)));
}

TEST_F(ReconnectorOfOne, AttemptsGoRoundThePairsOfNicsAndGetLonger) {
  std::vector<std::size_t> targets;
  std::vector<long> patience;
  for (int i = 0; i < 5; ++i) {
    const auto attempt = plan_.begin(0, State::kBroken, kTargets, plan_.due(0));
    ASSERT_TRUE(attempt);
    targets.push_back(attempt->target);
    patience.push_back(attempt->patience / milliseconds(1));
    plan_.failed(0, State::kBroken, kTargets, false, plan_.due(0));
  }
  EXPECT_EQ(targets, (std::vector<std::size_t>{0, 1, 2, 0, 1}));
  EXPECT_EQ(patience, (std::vector<long>{350, 700, 1400, 2800, 2800}));
}

TEST_F(ReconnectorOfOne, AHandshakeIsGivenUpAfterASecondThenAfterTwiceAsLong) {
  ASSERT_TRUE(plan_.begin(0, State::kBroken, kTargets, at({})));
  EXPECT_FALSE(plan_.overdue(0, at(seconds(1))));
  EXPECT_TRUE(plan_.overdue(0, at(seconds(1) + Duration(1))));
  plan_.failed(0, State::kBroken, kTargets, false, at(seconds(1)));
  ASSERT_TRUE(plan_.begin(0, State::kBroken, kTargets, at(seconds(10))));
  EXPECT_FALSE(plan_.overdue(0, at(seconds(12))));
  EXPECT_TRUE(plan_.overdue(0, at(seconds(12) + Duration(1))));
}

// An epoch that the peer may have accepted must not come again with another socket.
TEST_F(ReconnectorOfOne, AnEpochThatMayHaveBeenAcceptedIsNotUsedAgain) {
  const auto epoch = [&] { return plan_.begin(0, State::kBroken, kTargets, at(seconds(100)))->epoch; };
  EXPECT_EQ(epoch(), 1U);
  plan_.not_accepted(0, 1);
  EXPECT_EQ(epoch(), 1U);
  plan_.not_accepted(0, 3);  // the attempt itself has gone on to a higher one
  EXPECT_EQ(epoch(), 3U);
  plan_.dropped(0, 3);
  EXPECT_EQ(epoch(), 4U);
  plan_.dropped(0, 2);
  EXPECT_EQ(epoch(), 4U);
  plan_.joined(0, 0, 7, at({}));
  EXPECT_EQ(epoch(), 8U);
}

TEST_F(ReconnectorOfOne, ALostStreamIsTriedOverAPairThatWorksWhereItsOwnIsInDoubt) {
  EXPECT_FALSE(plan_.lost(0, false, 2, at({}))) << "an error says nothing about the path";
  EXPECT_EQ(plan_.target(0), 0U);
  EXPECT_TRUE(plan_.lost(0, true, 2, at({}))) << "an attempt over pair 0 is to be dropped";
  EXPECT_EQ(plan_.begin(0, State::kBroken, kTargets, at({}))->target, 2U);
  EXPECT_TRUE(plan_.lost(0, true, std::nullopt, at({})));
  EXPECT_EQ(plan_.target(0), 0U) << "no pair is better";
}

TEST_F(ReconnectorOfOne, ASuspectStreamIsTriedOverTheNextPairAtOnce) {
  pauses(State::kBroken, 4);
  plan_.joined(0, 1, 1, at(seconds(5)));
  plan_.suspected(0);
  EXPECT_EQ(plan_.begin(0, State::kSuspect, kTargets, at(seconds(5)))->target, 2U);
  plan_.failed(0, State::kSuspect, kTargets, false, at(seconds(5)));
  EXPECT_EQ(plan_.begin(0, State::kSuspect, kTargets, at(seconds(6)))->target, 0U)
      << "they go round from there";
}

TEST_F(ReconnectorOfOne, AStreamReturnsHomeLaterEachTimeThatItsPathSoonFellSilentAgain) {
  std::vector<long> stays;
  TimePoint now = at({});
  plan_.joined(0, 0, 1, now);
  for (int i = 0; i < 8; ++i) {
    plan_.lost(0, true, 1, now);
    plan_.joined(0, 1, 1, now);
    EXPECT_FALSE(plan_.begin(0, State::kLive, kTargets, plan_.due(0) - Duration(1)));
    stays.push_back((plan_.due(0) - now) / seconds(1));
    now = plan_.due(0);
    EXPECT_EQ(plan_.begin(0, State::kLive, kTargets, now)->target, 0U);
    plan_.lost(0, true, {}, now);  // replaced by the one at home
    plan_.joined(0, 0, 1, now);
  }
  EXPECT_EQ(stays, (std::vector<long>{2, 4, 8, 16, 32, 32, 32, 32}));
  plan_.lost(0, true, 1, now + seconds(10));
  plan_.joined(0, 1, 1, now);
  EXPECT_EQ(plan_.due(0), now + seconds(1)) << "it held for ten seconds";
}

TEST(RefusalsOfAPeer, CountWhereAllOfItsAddressesRefuse) {
  Refusals refusals;
  EXPECT_FALSE(refusals.all_of(0)) << "nobody was asked";
  refusals.note(0, true, false);
  EXPECT_TRUE(refusals.all_of(1));
  EXPECT_FALSE(refusals.all_of(2));
  refusals.note(1, true, false);
  EXPECT_TRUE(refusals.all_of(2));
  refusals.note(0, false, true);
  EXPECT_FALSE(refusals.all_of(2));
  EXPECT_EQ(refusals.turned_away(), 1U);
  refusals.note(1, false, true);
  EXPECT_EQ(refusals.turned_away(), 2U);
  refusals.note(1, false, false);
  EXPECT_EQ(refusals.turned_away(), 0U) << "only attempts in a row count";
  refusals.note(0, true, true);
  refusals.forget();
  EXPECT_FALSE(refusals.all_of(1));
  EXPECT_EQ(refusals.turned_away(), 0U);
}

TEST(RefusalsOfAPeer, KeepTheLastReasonWhenTheyAreForgotten) {
  Refusals refusals;
  EXPECT_EQ(refusals.last(), "");
  refusals.say("connect: refused");
  refusals.say("no answer in the handshake");
  refusals.forget();
  EXPECT_EQ(refusals.last(), "no answer in the handshake");
}

}  // namespace
}  // namespace tombolo::transport::tcp
