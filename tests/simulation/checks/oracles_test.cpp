#include "tests/simulation/checks/oracles.h"

#include <gtest/gtest.h>

#include "base/error.h"
#include "tests/simulation/checks/pattern.h"
#include "tests/simulation/plans/plan.h"

namespace tombolo::simulation {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;

constexpr TimePoint kBegin{seconds(1000)};

/// Two ends that sent each other three messages, and closed.
Facts all_is_well() {
  Facts facts;
  for (Account& end : facts.ends) {
    end.to_send = end.done_sends = end.to_receive = end.done_receives = 3;
    end.made = true;
    end.connecting_since = end.connected_at = kBegin;
    end.closing_since = end.closed_at = kBegin + seconds(1);
  }
  return facts;
}

void expect_wrong(const Facts& facts, const char* what) {
  const std::string wrong = check_end(facts);
  EXPECT_NE(wrong.find(what), std::string::npos) << "'" << wrong << "' instead of '" << what << "'";
}

TEST(Oracles, ARunInWhichAllIsDoneIsWell) {
  EXPECT_EQ(check_end(all_is_well()), "");
}

TEST(Oracles, AnErrorIsWrongWhereNothingHappenedThatCannotBeSurvived) {
  Facts facts = all_is_well();
  facts.ends[1].error = "it failed";
  facts.ends[1].done_receives = 2;
  expect_wrong(facts, "what can be survived was not");
  facts.terminal = kBegin;
  facts.ends[1].failed_at = kBegin + seconds(1);
  EXPECT_EQ(check_end(facts), "");
}

TEST(Oracles, AStreamThatIsCutAfterAnEndBeganToCloseMayCostTheOtherItsMessages) {
  Facts facts = all_is_well();
  facts.ends[1].error = "the peer no longer has this connection";
  facts.ends[1].done_receives = 2;
  facts.last_cut = kBegin + milliseconds(999);
  expect_wrong(facts, "what can be survived was not");
  facts.last_cut = kBegin + seconds(1);
  EXPECT_EQ(check_end(facts), "");
}

TEST(Oracles, AnEndThatClosesWhileAllItsStreamsAreCutMayCostTheOtherItsMessages) {
  Facts facts = all_is_well();
  facts.ends[1].error = "the peer no longer has this connection";
  facts.ends[0].closed_alone = true;
  expect_wrong(facts, "what can be survived was not");
  facts.last_cut = kBegin + milliseconds(10);
  EXPECT_EQ(check_end(facts), "");
}

TEST(Oracles, AnEndThatHasEverythingMayHearThatItsPeerHasClosed) {
  Facts facts = all_is_well();
  facts.ends[1].error = "the peer closed the connection";
  facts.ends[1].failed_at = kBegin + milliseconds(999);
  expect_wrong(facts, "what can be survived was not");
  facts.ends[1].failed_at = kBegin + milliseconds(1001);
  EXPECT_EQ(check_end(facts), "");
  facts.ends[1].done_receives = 2;
  expect_wrong(facts, "what can be survived was not");
}

TEST(Oracles, AnEndMayCloseWhileTheOtherOpensAgainAStreamThatWasCutDuringTheSetUp) {
  Facts facts = all_is_well();
  facts.ends[0] = Account{};
  facts.ends[0].to_send = facts.ends[0].to_receive = 3;
  facts.ends[0].error = "the peer's listener is gone, or has closed the connection already";
  expect_wrong(facts, "what can be survived was not");
  facts.last_cut = kBegin;
  EXPECT_EQ(check_end(facts), "");
}

TEST(Oracles, ARefusalOfTheSystemMayMakeTheSetUpFailWhereThatIsSaid) {
  Facts facts = all_is_well();
  facts.may_be_refused = true;
  facts.ends[1] = Account{};
  facts.ends[1].to_receive = facts.ends[1].to_send = 3;
  facts.ends[0].done_sends = 3;
  expect_wrong(facts, "what can be survived was not");
  facts.ends[0].error = "the peer no longer has this connection";
  EXPECT_EQ(check_end(facts), "");
  facts.may_be_refused = false;
  expect_wrong(facts, "what can be survived was not");
}

TEST(Oracles, ASendThatIsDoneWasReceivedOrTheReceivingEndFailed) {
  Facts facts = all_is_well();
  facts.terminal = kBegin;
  facts.ends[1].done_receives = 2;
  expect_wrong(facts, "sends were reported as done that nobody received");
  facts.ends[1].error = "the peer vanished";
  EXPECT_EQ(check_end(facts), "");
}

TEST(Oracles, AnEndMayNotStopWithoutAnErrorWhereTheOtherFails) {
  Facts facts = all_is_well();
  facts.terminal = kBegin;
  facts.ends[0].done_sends = facts.ends[1].done_receives = 2;
  facts.ends[1].error = "the peer vanished";
  expect_wrong(facts, "one end stopped without an error");
}

TEST(Oracles, ConnectingAndClosingKeepTheirDeadlines) {
  Facts facts = all_is_well();
  facts.ends[0].connected_at = kBegin + 2 * kConnectDeadline;
  expect_wrong(facts, "host 0: connecting took");
  facts = all_is_well();
  facts.ends[1].closed_at = *facts.ends[1].closing_since + 2 * kIdleTimeout;
  expect_wrong(facts, "host 1: closing took");
}

TEST(Oracles, AnEndWhosePeerIsGoneNoticesInTime) {
  Facts facts = all_is_well();
  facts.terminal = kBegin;
  facts.ends[0].error = "the peer vanished";
  facts.ends[0].failed_at = kBegin + 10 * kIdleTimeout;
  expect_wrong(facts, "host 0: noticing that the peer is gone took");
  facts.ends[0].killed = true;
  EXPECT_EQ(check_end(facts), "");
}

TEST(Oracles, NoDescriptorIsLeft) {
  Facts facts = all_is_well();
  facts.descriptors_left = 1;
  facts.which_descriptors = " 7:timer of host 1";
  expect_wrong(facts, "1 descriptors are left: 7:timer of host 1");
}

TEST(Oracles, AReceiveHoldsItsMessageAndNothingElse) {
  const auto message = message_bytes(0, 1, 100);
  std::vector<std::byte> buffer(message.begin(), message.end());
  buffer.resize(120, kUntouched);
  EXPECT_EQ(check_receive(1, 1, 100, buffer, message), "");
  EXPECT_NE(check_receive(1, 1, 99, buffer, message), "");
  EXPECT_NE(check_receive(1, 1, 100, buffer, message_bytes(0, 2, 100)), "");
  buffer[110] = std::byte{0};
  EXPECT_NE(check_receive(1, 1, 100, buffer, message), "");
}

TEST(Oracles, ASendReportsAllOfItsBytes) {
  EXPECT_EQ(check_send(0, 0, 5, message_bytes(0, 0, 5)), "");
  EXPECT_NE(check_send(0, 0, 4, message_bytes(0, 0, 5)), "");
}

TEST(Oracles, ARequestThatFailsComesWithAnErrorThatNamesThePeer) {
  EXPECT_NE(check_failed(0, 2, nullptr, "h1"), "");
  const Error nameless(Cause::kRemote, "it failed"),
      named(Cause::kRemote, "connection to host h1: it failed");
  EXPECT_NE(check_failed(0, 2, &nameless, "h1"), "");
  EXPECT_EQ(check_failed(0, 2, &named, "h1"), "");
  EXPECT_NE(check_failed(1, 2, &named, "h0"), "");
}

TEST(Oracles, NothingWritesToABufferWhoseRequestIsOver) {
  std::vector<std::byte> buffer(50, kOver);
  EXPECT_EQ(check_over(0, buffer), "");
  buffer.back() = kUntouched;
  EXPECT_NE(check_over(0, buffer), "");
}

TEST(SpinWatch, AnOwnerSpinsThatIsWokenAgainAndAgainWhileNothingMoves) {
  SpinWatch spins;
  for (int i = 0; i < SpinWatch::kMost; ++i) ASSERT_FALSE(spins.woken_for_nothing(kBegin, 1));
  EXPECT_TRUE(spins.woken_for_nothing(kBegin, 1));
}

TEST(SpinWatch, AnOwnerDoesNotSpinWhileBytesMoveOrTimePasses) {
  SpinWatch busy, slow;
  for (int i = 0; i < 3 * SpinWatch::kMost; ++i) {
    ASSERT_FALSE(busy.woken_for_nothing(kBegin, static_cast<std::uint64_t>(i)));
    ASSERT_FALSE(slow.woken_for_nothing(kBegin + i * milliseconds(1), 1));
  }
}

}  // namespace
}  // namespace tombolo::simulation
