// How TCP connections end: on purpose, by accident, by silence.
#include <gtest/gtest.h>
#include <sys/socket.h>

#include <cstring>
#include <random>
#include <thread>

#include "base/randomized_test.h"
#include "transport/bootstrap/closing_patience.h"
#include "transport/bootstrap/process_helpers.h"
#include "transport/sockets/closing_sockets.h"
#include "transport/testing/forwarding_kernel.h"
#include "transport/testing/raw_peer.h"
#include "transport/testing/test_support.h"

namespace tombolo::transport::tcp {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;
using test::finish;

TcpOptions streams(int count) {
  TcpOptions options;
  options.streams = count;
  options.idle_timeout = seconds(60);
  return options;
}

class Closing : public testing::TestWithParam<int> {};

TEST_P(Closing, LosesNothingThatWasReportedSentAlsoWithUnreadBytesTowardsIt) {
  Router left(test::router_options("left", streams(GetParam()))), right(test::router_options("right"));
  auto listener = right.listen();
  for (int round = 0; round < 6; ++round) {
    auto [near, far] = test::connect_pair(left, *listener);
    std::vector<std::vector<std::byte>> messages;
    std::size_t step = round % 2 == 0 ? 10'000 : 60'000;
    for (int i = 0; i < 4; ++i) messages.emplace_back(1 + i * step, static_cast<std::byte>(i + round));
    std::size_t bytes = 0;
    // Bytes that the closing end never reads: a plain close would reset the stream.
    std::vector<std::byte> unread(30'000);
    ASSERT_EQ(finish(*far, far->post_send(unread), bytes), Outcome::kDone);
    std::vector<std::vector<std::byte>> buffers;
    std::vector<Request*> receives;
    for (auto& message : messages) buffers.emplace_back(message.size());
    // A large message is done when the peer has it, so that somebody has to take it.
    const bool large = messages[3].size() > 32 * 1024;
    for (auto& buffer : buffers)
      if (large) receives.push_back(far->post_receive(buffer));
    for (auto& message : messages)
      ASSERT_EQ(finish(*near, near->post_send(message), bytes, large ? far.get() : nullptr), Outcome::kDone);
    near.reset();
    for (std::size_t i = 0; i < messages.size(); ++i) {
      if (!large) receives.push_back(far->post_receive(buffers[i]));
      ASSERT_EQ(finish(*far, receives[i], bytes), Outcome::kDone) << far->error()->what();
      EXPECT_EQ(buffers[i], messages[i]);
    }
    ASSERT_EQ(finish(*far, far->post_receive(messages[0]), bytes), Outcome::kFailed);
    std::string text = far->error()->what();
    EXPECT_NE(text.find("the peer closed the connection"), std::string::npos) << text;
    EXPECT_NE(text.find("host left (NIC eth0 -> eth0 127.0.0.1:"), std::string::npos) << text;
  }
}

// Its acknowledgements meet a closed socket then, which answers with a reset.
TEST_P(Closing, DeliversAllThatWasReportedSentToReceivesThatArePostedOneByOneAfterwards) {
  TcpOptions tcp;
  tcp.streams = GetParam();
  auto left = std::make_unique<Router>(test::router_options("left", tcp));
  Router right(test::router_options("right", tcp));
  auto listener = right.listen();
  auto [near, far] = test::connect_pair(*left, *listener);
  std::mt19937_64 random(test_seed(11));
  std::vector<std::vector<std::byte>> messages;
  // As many as the kernels take of a peer that reads nothing; some acknowledgements fall due.
  for (int i = 0; i < 20; ++i) messages.push_back(test::random_data(random, 8000));
  std::size_t bytes = 0;
  for (const auto& message : messages)
    ASSERT_EQ(test::finish(*near, near->post_send(message), bytes), Outcome::kDone);
  near.reset();
  left.reset();  // and its sockets are closed
  std::vector<std::byte> got(8000);
  for (std::size_t i = 0; i < messages.size(); ++i) {
    ASSERT_EQ(test::finish(*far, far->post_receive(got), bytes), Outcome::kDone)
        << "message " << i << ": " << far->error()->what();
    ASSERT_TRUE(got == messages[i]) << "message " << i;
  }
  ASSERT_EQ(test::finish(*far, far->post_receive(got), bytes), Outcome::kFailed);
  EXPECT_NE(std::string(far->error()->what()).find("closed the connection"), std::string::npos)
      << far->error()->what();
}

// More than the kernels hold, to a peer that begins to receive only after the sender's end is long gone.
TEST_P(Closing, DeliversAllThatWasReportedSentHoweverLateReceivesArePosted) {
  TcpOptions tcp;
  tcp.streams = GetParam();
  Router left(test::router_options("left", tcp)), right(test::router_options("right", tcp));
  auto listener = right.listen();
  auto [near, far] = test::connect_pair(left, *listener);
  std::mt19937_64 random(test_seed(12));
  const auto text = test::random_data(random, 30'000);
  // Until the kernels take no more: the last message is not done then.
  std::size_t bytes = 0;
  int sent = 0;
  for (bool taken = true; taken && sent < 10'000; ++sent) {
    Request* send = near->post_send(std::span(text).first(static_cast<std::size_t>(20'000 + sent % 10'000)));
    if (send == nullptr) break;
    Outcome outcome = Outcome::kPending;
    // Also where this thread did not run for so long.
    const auto full = Deadline::after(milliseconds(200));
    for (int look = 0; outcome == Outcome::kPending && (look < 100 || !full.passed()); ++look)
      outcome = near->test(send, bytes);
    taken = outcome == Outcome::kDone;
  }
  ASSERT_LT(sent, 10'000);
  --sent;  // the one that was not done
  ASSERT_GT(sent, 20);
  near.reset();
  for (const auto until = Deadline::after(2 * sockets::ClosingSockets::kShortest); !until.passed();)
    std::this_thread::sleep_for(milliseconds(10));
  std::vector<std::byte> got(text.size());
  for (int i = 0; i < sent; ++i) {
    ASSERT_EQ(test::finish(*far, far->post_receive(got), bytes), Outcome::kDone)
        << "message " << i << " of " << sent << ": " << far->error()->what();
    ASSERT_EQ(bytes, static_cast<std::size_t>(20'000 + i % 10'000));
    ASSERT_EQ(std::memcmp(got.data(), text.data(), bytes), 0) << "message " << i;
  }
}

// In the middle of a frame, where no goodbye can be said; acknowledgements of what came before meet a closed
// socket, and its answer must not take what still waits for receives.
TEST_P(Closing, DeliversWhatCameBeforeAnUnfinishedFrame) {
  constexpr std::uint64_t kMessages = 6;
  Router right(test::router_options("right", streams(1)));
  test::RawPeer peer(right, 1);
  for (std::uint64_t i = 0; i < kMessages; ++i) {
    FrameHeader header{FrameType::kChunk, GoodbyeReason::kClosed, 100, i, 100, 0};
    header.flags = kUrgentFlag;
    peer.say(0, header, 100);
  }
  peer.say(0, {FrameType::kChunk, GoodbyeReason::kClosed, 100, kMessages, 100, 0}, 50);
  peer.sockets.clear();
  std::vector<std::byte> buffer(100);
  std::size_t bytes = 0;
  for (std::uint64_t i = 0; i < kMessages; ++i) {
    ASSERT_EQ(finish(*peer.connection, peer.connection->post_receive(buffer), bytes), Outcome::kDone)
        << "message " << i << ": " << peer.connection->error()->what();
    ASSERT_EQ(bytes, 100U);
    ASSERT_EQ(buffer, std::vector<std::byte>(100, std::byte{0x33}));
    std::ranges::fill(buffer, std::byte{0});
    // So that the next acknowledgement cannot be sent.
    for (int look = 0; look < 20 && i < 2; ++look) {
      peer.connection->progress();
      std::this_thread::sleep_for(milliseconds(1));
    }
  }
  ASSERT_EQ(finish(*peer.connection, peer.connection->post_receive(buffer), bytes), Outcome::kFailed);
}

TEST_P(Closing, WithoutAGoodbyeIsCalledVanished) {
  Router right(test::router_options("right", streams(1)));
  test::RawPeer peer(right, static_cast<std::uint16_t>(GetParam()));
  std::vector<std::byte> buffer(10);
  Request* first = peer.connection->post_receive(buffer);
  Request* receive = peer.connection->post_receive(buffer);
  peer.say(0, {FrameType::kChunk, GoodbyeReason::kClosed, 10, 0, 10, 0}, 10);
  peer.sockets.clear();
  std::size_t bytes = 0;
  EXPECT_EQ(finish(*peer.connection, first, bytes), Outcome::kDone) << "what came before still counts";
  ASSERT_EQ(finish(*peer.connection, receive, bytes), Outcome::kFailed);
  EXPECT_EQ(peer.connection->error()->cause(), Cause::kRemote);
  EXPECT_NE(std::string(peer.connection->error()->what()).find("vanished"), std::string::npos);
}

TEST_P(Closing, InTheMiddleOfAMessageFailsItsReceive) {
  Router right(test::router_options("right", streams(1)));
  test::RawPeer peer(right, static_cast<std::uint16_t>(GetParam()));
  std::vector<std::byte> buffer(1000);
  Request* receive = peer.connection->post_receive(buffer);
  peer.say(0, {FrameType::kChunk, GoodbyeReason::kClosed, 1000, 0, 1000, 0}, 500);
  peer.sockets.clear();
  std::size_t bytes = 0;
  ASSERT_EQ(finish(*peer.connection, receive, bytes), Outcome::kFailed);
}

TEST_P(Closing, WithAResetWaitsForThePeerToComeBackUntilTheDeadline) {
  TcpOptions options = streams(1);
  options.idle_timeout = seconds(1);
  Router right(test::router_options("right", options));
  test::RawPeer peer(right, static_cast<std::uint16_t>(GetParam()));
  std::vector<std::byte> buffer(1000);
  Request* receive = peer.connection->post_receive(buffer);
  // Reset, not closed.
  linger hard{1, 0};
  for (auto& socket : peer.sockets) setsockopt(socket.get(), SOL_SOCKET, SO_LINGER, &hard, sizeof hard);
  peer.sockets.clear();
  std::size_t bytes = 0;
  ASSERT_EQ(finish(*peer.connection, receive, bytes), Outcome::kFailed);
  EXPECT_EQ(peer.connection->error()->cause(), Cause::kTimeout) << peer.connection->error()->what();
  std::string text = peer.connection->error()->what();
  EXPECT_NE(text.find("last stream broke (Connection reset by peer) and none came back within 1 s"),
            std::string::npos)
      << text;
}

TEST_P(Closing, ToAnEndThatSendsOnlyFailsItToo) {
  Router left(test::router_options("left", streams(GetParam()))), right(test::router_options("right"));
  auto listener = right.listen();
  auto [near, far] = test::connect_pair(left, *listener);
  near.reset();
  std::vector<std::byte> message(100'000);
  std::size_t bytes = 0;
  for (auto deadline = test::soon(); far->error() == nullptr && !deadline.passed();) {
    if (Request* request = far->post_send(message)) finish(*far, request, bytes);
  }
  ASSERT_NE(far->error(), nullptr);
  EXPECT_EQ(far->error()->cause(), Cause::kRemote) << far->error()->what();
}

INSTANTIATE_TEST_SUITE_P(Streams, Closing, testing::Values(1, 4));

TEST(Malformed, FramesFailTheConnectionAndThePeerIsTold) {
  Router right(test::router_options("right", streams(1)));
  test::RawPeer peer(right);
  std::vector<std::byte> buffer(1000);
  Request* receive = peer.connection->post_receive(buffer);
  peer.say(0, {FrameType::kChunk, GoodbyeReason::kClosed, 500, 0, 1000, 500}, 500);
  peer.say(0, {FrameType::kChunk, GoodbyeReason::kClosed, 500, 0, 1000, 0});
  std::size_t bytes = 0;
  ASSERT_EQ(finish(*peer.connection, receive, bytes), Outcome::kFailed);
  std::string text = peer.connection->error()->what();
  EXPECT_NE(text.find("no valid frame"), std::string::npos) << text;
  EXPECT_NE(text.find("message 0, offset 0"), std::string::npos) << text;
  HeaderBytes goodbye;
  ASSERT_EQ(recv(peer.sockets[0].get(), goodbye.data(), goodbye.size(), MSG_WAITALL),
            static_cast<ssize_t>(goodbye.size()));
  ASSERT_TRUE(decode(goodbye));
  EXPECT_EQ(decode(goodbye)->reason, GoodbyeReason::kMalformed);
}

class Silence : public testing::TestWithParam<int> {
 protected:
  Silence() {
    RouterOptions options = test::router_options("right", streams(1));
    options.tcp.idle_timeout = seconds(2);
    options.clock = &clock_;
    router_ = std::make_unique<Router>(options);
    peer_ = std::make_unique<test::RawPeer>(*router_, static_cast<std::uint16_t>(GetParam()));
  }
  FakeClock clock_;
  std::unique_ptr<Router> router_;
  std::unique_ptr<test::RawPeer> peer_;
};

TEST_P(Silence, AWaitingReceiveAloneNeverFailsWhileThePeersHostAnswers) {
  std::vector<std::byte> buffer(1000);
  Request* receive = peer_->connection->post_receive(buffer);
  std::size_t bytes = 0;
  for (int i = 0; i < 3600; ++i) {
    ASSERT_EQ(peer_->connection->test(receive, bytes), Outcome::kPending);
    clock_.advance(seconds(1));
  }
}

TEST_P(Silence, ASendOfWhichThePeerTakesNothingFailsAfterTenIdleTimeouts) {
  std::vector<std::byte> message(256 << 20);
  Request* send = peer_->connection->post_send(message);
  std::size_t bytes = 0;
  Outcome outcome = Outcome::kPending;
  // The kernel takes some megabytes first; let them settle before the clock moves.
  for (int i = 0; i < 2000; ++i) ASSERT_EQ(peer_->connection->test(send, bytes), Outcome::kPending);
  for (int elapsed = 0; elapsed < 19; ++elapsed) {
    for (int i = 0; i < 3; ++i) {
      ASSERT_EQ(peer_->connection->test(send, bytes), Outcome::kPending) << "after " << elapsed << " s";
    }
    clock_.advance(seconds(1));
  }
  int elapsed = 19;
  for (; elapsed < 60 && outcome == Outcome::kPending; ++elapsed) {
    clock_.advance(seconds(1));
    outcome = peer_->connection->test(send, bytes);
  }
  ASSERT_EQ(outcome, Outcome::kFailed);
  EXPECT_LE(elapsed, 45);
  EXPECT_EQ(peer_->connection->error()->cause(), Cause::kTimeout);
  std::string text = peer_->connection->error()->what();
  EXPECT_NE(text.find("took nothing"), std::string::npos) << text;
  EXPECT_NE(text.find("sending message 0 of 256 MiB"), std::string::npos) << text;
}

INSTANTIATE_TEST_SUITE_P(Streams, Silence, testing::Values(1, 4));

/// Waiting for descriptors takes no time but that of a clock.
class WaitsInNoTime final : public test::ForwardingKernel {
 public:
  explicit WaitsInNoTime(FakeClock& clock) : clock_(clock) {}
  int poll(pollfd* handles, nfds_t count, int timeout_ms) noexcept override {
    if (timeout_ms > 0) clock_.advance(milliseconds(timeout_ms));
    return ForwardingKernel::poll(handles, count, 0);
  }

 private:
  FakeClock& clock_;
};

// Each has to send again what it reported as sent, and the peer's host is gone.
TEST(ClosingTowardsSilence, TakesAllConnectionsTogetherLessThanTwoSeconds) {
  constexpr int kConnections = 12;
  FakeClock clock;
  WaitsInNoTime kernel(clock);
  const KernelInPlace in_place(kernel);
  RouterOptions options = test::router_options("right", streams(1));
  options.clock = &clock;
  options.helpers =
      std::make_shared<bootstrap::ProcessHelpers>(bootstrap::ProcessHelpers::Simulated{}, clock);
  Router right(options);
  std::vector<std::unique_ptr<Connection>> connections;
  const std::vector<std::byte> message(100);
  for (int i = 0; i < kConnections; ++i) {
    test::RawPeer peer(right);
    std::size_t bytes = 0;
    ASSERT_EQ(finish(*peer.connection, peer.connection->post_send(message), bytes), Outcome::kDone);
    const linger hard{1, 0};
    setsockopt(peer.sockets[0].get(), SOL_SOCKET, SO_LINGER, &hard, sizeof hard);
    peer.sockets.clear();
    while (peer.connection->statistics().live_streams != 0) peer.connection->progress();
    connections.push_back(std::move(peer.connection));
  }
  const TimePoint before = clock.now();
  connections.clear();
  EXPECT_GE(clock.now() - before, bootstrap::ClosingPatience::kMost);
  EXPECT_LT(clock.now() - before, seconds(2));
}

}  // namespace
}  // namespace tombolo::transport::tcp
