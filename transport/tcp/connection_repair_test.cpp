// What a connection believes of its peer's words about broken streams, and how it tests a path on which it
// waits. Streams that break while data flows are in failover_test.cpp and damage_test.cpp.
#include <gtest/gtest.h>
#include <sys/socket.h>

#include <cstring>

#include "transport/testing/raw_peer.h"
#include "transport/testing/test_messages.h"

namespace tombolo::transport::tcp {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;

class RepairWithARawPeer : public testing::Test {
 protected:
  explicit RepairWithARawPeer(std::uint16_t streams = 2) {
    RouterOptions options = test::router_options("right");
    options.tcp.idle_timeout = seconds(8);
    options.clock = &clock_;
    router_ = std::make_unique<Router>(options);
    peer_ = std::make_unique<test::RawPeer>(*router_, streams);
  }
  Connection& connection() { return *peer_->connection; }
  static FrameHeader summary(std::uint64_t stream, std::uint32_t first, std::uint32_t last,
                             std::uint32_t count) {
    FrameHeader header;
    header.type = FrameType::kEpochSummary;
    header.offset = stream;
    header.total = std::uint64_t{first} << 32 | last;
    header.sequence = count;
    return header;
  }
  std::string failure() {
    for (const auto deadline = test::soon(); connection().error() == nullptr && !deadline.passed();)
      connection().progress();
    if (connection().error() == nullptr) return "no failure";
    EXPECT_EQ(connection().error()->cause(), Cause::kRemote);
    return connection().error()->what();
  }
  /// The frames without payload that have come on a stream.
  std::vector<FrameHeader> frames(std::size_t stream) {
    std::vector<FrameHeader> all;
    HeaderBytes bytes;
    while (recv(peer_->sockets[stream].get(), bytes.data(), bytes.size(), MSG_DONTWAIT) ==
           static_cast<ssize_t>(bytes.size())) {
      const auto header = decode(bytes);
      EXPECT_TRUE(header && intact(bytes));
      if (header) all.push_back(*header);
    }
    return all;
  }
  void expect_told_of_nonsense(std::size_t stream) {
    const auto told = frames(stream);
    ASSERT_FALSE(told.empty());
    EXPECT_EQ(told.back().type, FrameType::kGoodbye);
    EXPECT_EQ(told.back().reason, GoodbyeReason::kMalformed);
  }

  FakeClock clock_;
  std::unique_ptr<Router> router_;
  std::unique_ptr<test::RawPeer> peer_;
};

class RepairOfOne : public RepairWithARawPeer {
 protected:
  RepairOfOne() : RepairWithARawPeer(1) {}
};

TEST_F(RepairOfOne, APeerThatAcknowledgesMoreThanWasSentIsNotBelieved) {
  FrameHeader ack;
  ack.type = FrameType::kAck;
  ack.ack = 5;
  std::array<std::byte, 10> buffer;
  connection().post_receive(buffer);
  peer_->say(0, ack);
  test::expect_in(failure(), "the peer acknowledged more than was sent");
  expect_told_of_nonsense(0);
}

TEST_F(RepairWithARawPeer, NorOneThatGotMoreChunksByABrokenStreamThanWereSent) {
  std::array<std::byte, 10> buffer;
  connection().post_receive(buffer);
  peer_->say(0, summary(1, 0, 0, 7));
  test::expect_in(failure(), "the peer says that stream 1 brought 7 chunks, more than were sent");
  expect_told_of_nonsense(0);
}

TEST_F(RepairWithARawPeer, WordsAboutAStreamThatIsNotThereYetChangeNothing) {
  std::array<std::byte, 10> buffer;
  Request* receive = connection().post_receive(buffer);
  peer_->say(0, summary(40, 0, 3, 0));
  peer_->say(0, {FrameType::kChunk, GoodbyeReason::kClosed, 10, 0, 10, 0}, 10);
  std::size_t bytes = 0;
  EXPECT_EQ(test::finish(connection(), receive, bytes), Outcome::kDone) << test::why_failed(connection());
  EXPECT_EQ(connection().statistics().live_streams, 2u);
}

TEST_F(RepairWithARawPeer, AStreamThatThePeerGaveUpIsGivenUpHereTooAndThePeerIsToldWhatCameByIt) {
  std::array<std::byte, 10> buffer;
  std::size_t bytes = 0;
  Request* first = connection().post_receive(buffer);
  peer_->say(1, {FrameType::kChunk, GoodbyeReason::kClosed, 10, 0, 10, 0}, 10);
  ASSERT_EQ(test::finish(connection(), first, bytes), Outcome::kDone);
  Request* second = connection().post_receive(buffer);
  peer_->say(0, summary(1, 0, 0, 0));
  peer_->say(0, {FrameType::kChunk, GoodbyeReason::kClosed, 10, 1, 10, 0}, 10);
  ASSERT_EQ(test::finish(connection(), second, bytes), Outcome::kDone) << test::why_failed(connection());
  EXPECT_EQ(connection().statistics().live_streams, 1u);
  EXPECT_EQ(connection().statistics().breaks, 1u);
  // Its own count: one chunk in epoch 0.
  std::vector<FrameHeader> heard;
  for (const auto deadline = test::soon(); heard.empty() && !deadline.passed();) {
    connection().progress();
    for (const FrameHeader& one : frames(0))
      if (one.type == FrameType::kEpochSummary) heard.push_back(one);
  }
  ASSERT_EQ(heard.size(), 1u);
  EXPECT_EQ(heard[0].offset, 1u);
  EXPECT_EQ(heard[0].total, 0u);
  EXPECT_EQ(heard[0].sequence, 1u);
}

// A sender's own bytes test the path. An end that only waits has to, less and less often.
TEST_F(RepairOfOne, AnEndThatOnlyWaitsTestsThePath) {
  std::array<std::byte, 10> buffer;
  Request* receive = connection().post_receive(buffer);
  std::size_t bytes = 0;
  for (int step = 0; step < 90; ++step) {
    ASSERT_EQ(connection().test(receive, bytes), Outcome::kPending);
    clock_.advance(milliseconds(100));
  }
  // After 0.3, 0.9, 2.1, 4.1, 6.1 and 8.1 s: a quarter of the idle timeout is the longest.
  std::vector<FrameHeader> pings;
  for (const auto deadline = test::soon(); pings.size() < 6 && !deadline.passed();) {
    const auto more = frames(0);
    pings.insert(pings.end(), more.begin(), more.end());
  }
  EXPECT_EQ(pings.size(), 6u);
  for (const FrameHeader& one : pings) EXPECT_EQ(one.type, FrameType::kPing);
}

TEST_F(RepairOfOne, WhoWaitsForNothingSendsNothing) {
  for (int step = 0; step < 90; ++step) {
    connection().progress();
    clock_.advance(milliseconds(100));
  }
  EXPECT_TRUE(frames(0).empty());
}

// Its end was not seen, since nothing reads a stream whose next message has no receive yet; and the owner,
// who waited for the message before, would never have posted one.
TEST_F(RepairWithARawPeer, AStreamThatWaitsForAReceiveDoesNotHideThatThePeerIsGone) {
  std::array<std::byte, 10> buffer{};
  Request* receive = connection().post_receive(buffer);
  FrameHeader next;
  next.sequence = 1;
  next.length = 10;
  next.total = 10;
  peer_->say(1, next, 10);
  for (Descriptor& socket : peer_->sockets) socket.reset();
  std::size_t bytes = 0;
  Outcome outcome = Outcome::kPending;
  for (const auto deadline = test::soon(); outcome == Outcome::kPending && !deadline.passed();) {
    clock_.advance(milliseconds(10));
    outcome = connection().test(receive, bytes);
  }
  EXPECT_EQ(outcome, Outcome::kFailed);
  EXPECT_NE(failure().find("the peer vanished"), std::string::npos) << failure();
}

}  // namespace
}  // namespace tombolo::transport::tcp
