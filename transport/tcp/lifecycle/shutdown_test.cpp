#include "transport/tcp/lifecycle/shutdown.h"

#include <gtest/gtest.h>

#include <algorithm>

namespace tombolo::transport::tcp {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;

constexpr TimePoint kNow = TimePoint{} + seconds(1000);

TEST(ShutdownOfAConnection, AfterThePeersGoodbyeWaitsForStreamsThatMayStillCome) {
  Shutdown shutdown;
  EXPECT_FALSE(shutdown.complete(0, false)) << "lost streams may come back";
  shutdown.peer_said_goodbye();
  EXPECT_TRUE(shutdown.peer_left());
  EXPECT_FALSE(shutdown.open());
  EXPECT_FALSE(shutdown.complete(1, false));
  EXPECT_FALSE(shutdown.complete(0, true));
  EXPECT_TRUE(shutdown.complete(0, false));
}

TEST(ShutdownOfAConnection, APeerThatIsGoneMayStillHaveSaidSomethingOnStreamsThatCome) {
  Shutdown shutdown;
  shutdown.peer_is_gone("it does not know the connection");
  EXPECT_TRUE(shutdown.peer_left());
  EXPECT_FALSE(shutdown.complete(0, true));
  EXPECT_TRUE(shutdown.complete(0, false));
  EXPECT_EQ(shutdown.how_peer_left(), "it does not know the connection");
  shutdown.peer_said_goodbye();
  EXPECT_EQ(shutdown.how_peer_left(), "") << "it closed in order";
  EXPECT_TRUE(shutdown.peer_left());
}

TEST(ShutdownOfAConnection, IsLeftForAnotherWayByEitherEndAndByThisOneOnce) {
  Shutdown left, other;
  left.peer_left_for_another();
  EXPECT_FALSE(left.left_for_another()) << "it has not failed yet";
  EXPECT_TRUE(left.leave_for_another());
  EXPECT_FALSE(left.leave_for_another());
  left.peer_left_for_another();
  EXPECT_FALSE(left.leave_for_another()) << "what the peer does changes nothing";
  left.fail(Error(Cause::kAborted, "left"));
  EXPECT_TRUE(left.left_for_another());
  other.fail(Error(Cause::kRemote, "failed"));
  EXPECT_FALSE(other.left_for_another());
}

TEST(ShutdownOfAConnection, KeepsTheFirstFailure) {
  Shutdown shutdown;
  EXPECT_EQ(shutdown.error(), nullptr);
  EXPECT_TRUE(shutdown.fail(Error(Cause::kTimeout, "first")));
  EXPECT_FALSE(shutdown.fail(Error(Cause::kRemote, "second")));
  shutdown.peer_said_goodbye();
  EXPECT_EQ(shutdown.state(), Shutdown::State::kFailed);
  ASSERT_NE(shutdown.error(), nullptr);
  EXPECT_EQ(shutdown.error()->cause(), Cause::kTimeout);
  EXPECT_STREQ(shutdown.error()->what(), "first");
}

TEST(ShutdownOfAConnection, FlushesWhileSomethingIsOwedAndMovesAndThereIsTime) {
  Shutdown shutdown;
  EXPECT_FALSE(shutdown.flushes(kNow, true, {})) << "it was not begun";
  shutdown.begin_flush(kNow, seconds(8), seconds(2));
  EXPECT_TRUE(shutdown.flushes(kNow, true, {}));
  EXPECT_FALSE(shutdown.flushes(kNow, false, {}));
  EXPECT_TRUE(shutdown.flushes(kNow, true, milliseconds(1999)));
  EXPECT_FALSE(shutdown.flushes(kNow, true, seconds(2)));
  EXPECT_TRUE(shutdown.flushes(kNow + milliseconds(7999), true, {}));
  EXPECT_FALSE(shutdown.flushes(kNow + seconds(8), true, {}));
  shutdown.fail(Error(Cause::kRemote, "the peer closed the connection"));
  EXPECT_FALSE(shutdown.flushes(kNow, true, {}));
}

TEST(ShutdownOfAConnection, TellsThePeerOfAFailureAndWhatItWasAbout) {
  FrameHeader about;
  about.sequence = 7;
  about.total = 100;
  about.offset = 50;
  about.length = 10;
  const FrameHeader header = Shutdown::goodbye(GoodbyeReason::kTooLarge, about);
  EXPECT_EQ(header.type, FrameType::kGoodbye);
  EXPECT_EQ(header.reason, GoodbyeReason::kTooLarge);
  EXPECT_EQ(header.sequence, 7U);
  EXPECT_EQ(header.total, 100U);
  EXPECT_EQ(header.offset, 50U);
  EXPECT_EQ(header.length, 0U) << "no payload follows";
}

TEST(ShutdownOfAConnection, AStreamsLastWordsAreItsRestThenTheCountThenTheGoodbye) {
  const std::vector<std::byte> rest(13, std::byte{0x5a});
  const std::vector<std::byte> words = Shutdown::last_words(rest, 42);
  ASSERT_EQ(words.size(), rest.size() + 2 * kHeaderBytes);
  EXPECT_TRUE(std::equal(rest.begin(), rest.end(), words.begin()));
  const auto header_at = [&](std::size_t index) {
    HeaderBytes bytes;
    std::copy_n(words.begin() + static_cast<std::ptrdiff_t>(rest.size() + index * kHeaderBytes), kHeaderBytes,
                bytes.begin());
    return decode(bytes);
  };
  const auto ack = header_at(0), goodbye = header_at(1);
  ASSERT_TRUE(ack && goodbye);
  EXPECT_EQ(ack->type, FrameType::kAck);
  EXPECT_EQ(ack->ack, 42U);
  EXPECT_EQ(goodbye->type, FrameType::kGoodbye);
  EXPECT_EQ(goodbye->reason, GoodbyeReason::kClosed);
}

}  // namespace
}  // namespace tombolo::transport::tcp
