// A stream may break after its accepting end has accepted it and before its connecting end knows. Then the
// connecting end joins again, and there must be one connection all the same.
#include <gtest/gtest.h>
#include <sys/socket.h>

#include <algorithm>
#include <cstring>

#include "transport/bootstrap/listener.h"
#include "transport/testing/raw_peer.h"
#include "transport/testing/test_messages.h"

namespace tombolo::transport::tcp {
namespace {

class JoinAgain : public testing::Test {
 protected:
  JoinAgain() {
    RouterOptions options = test::router_options("right");
    options.log = log_.of("right");
    router_ = std::make_unique<Router>(options);
    listener_ = router_->listen();
    other_ = router_->listen();
    hello_ = test::hello_for(*listener_);
  }
  void serve() {
    if (auto one = listener_->accept()) connections_.push_back(std::move(one));
    for (const auto& one : connections_) one->progress();
  }
  /// Joins with the hello as it is now.
  Descriptor join(bootstrap::HandshakeStatus expected = bootstrap::HandshakeStatus::kOk) {
    Descriptor socket = test::connected_to(*listener_);
    random_bytes(hello_.nonce);
    EXPECT_EQ(test::shake_hands(socket, hello_, [&] { serve(); }).status, expected);
    return socket;
  }
  /// Joins, and waits in the listener's inbox: another listener's calls take the handshake on.
  Descriptor join_unseen(bootstrap::Hello hello) {
    Descriptor socket = test::connected_to(*listener_);
    random_bytes(hello.nonce);
    EXPECT_EQ(test::shake_hands(socket, hello, [&] { other_->accept(); }).status,
              bootstrap::HandshakeStatus::kOk);
    return socket;
  }
  /// Joins and loses its stream; then come as many others as one call of accept() takes on with it; and then
  /// it joins again.
  void join_twice_with_others_between() {
    hello_.label = kLabel;
    Descriptor lost = join_unseen(hello_);
    while (others_.size() < bootstrap::AuthenticatingListener::kMostTaken)
      others_.push_back(join_unseen(test::hello_for(*listener_)));
    reset(lost);
    hello_.epoch = 1;
    others_.push_back(join_unseen(hello_));
  }
  std::ptrdiff_t connections_of_one_connect() const {
    return std::ranges::count(connections_, kLabel, [](const auto& one) { return one->label(); });
  }
  void serve_until_accepted() {
    for (const auto deadline = test::soon(); connections_.empty() && !deadline.passed();) serve();
    ASSERT_EQ(connections_.size(), 1u) << log_.text();
  }
  static void reset(Descriptor& socket) {
    const ::linger hard{1, 0};
    setsockopt(socket.get(), SOL_SOCKET, SO_LINGER, &hard, sizeof hard);
    socket.reset();
  }
  static void send_message(const Descriptor& socket, std::uint64_t sequence) {
    FrameHeader header;
    header.length = 10;
    header.total = 10;
    header.sequence = sequence;
    std::vector<std::byte> bytes(kHeaderBytes + 10, std::byte{0x33});
    encode(header, std::span(bytes).first<kHeaderBytes>());
    test::RawPeer::say(socket, bytes);
  }
  void expect_message() {
    std::array<std::byte, 10> buffer{};
    std::size_t bytes = 0;
    Request* receive = connections_[0]->post_receive(buffer);
    ASSERT_EQ(test::finish(*connections_[0], receive, bytes), Outcome::kDone)
        << test::why_failed(*connections_[0]) << "\n"
        << log_.text();
    EXPECT_EQ(bytes, 10u);
    EXPECT_EQ(buffer[9], std::byte{0x33});
  }

  test::LogBook log_;
  std::unique_ptr<Router> router_;
  static constexpr std::uint64_t kLabel = 77;
  std::unique_ptr<Listener> listener_, other_;
  std::vector<Descriptor> others_;
  bootstrap::Hello hello_;
  std::vector<std::unique_ptr<Connection>> connections_;
};

TEST_F(JoinAgain, BeforeAllStreamsAreThereReplacesTheStream) {
  hello_.streams = 2;
  Descriptor lost = join();
  hello_.epoch = 1;
  const Descriptor first = join();
  reset(lost);
  hello_.stream = 1;
  hello_.epoch = 0;
  const Descriptor second = join();
  serve_until_accepted();
  if (HasFatalFailure()) return;
  EXPECT_EQ(connections_[0]->statistics().live_streams, 2u);
  send_message(first, 0);
  expect_message();
  send_message(second, 1);
  expect_message();
  EXPECT_EQ(connections_.size(), 1u);
}

// The connecting end is complete once its streams have their replies, and adds others while the accepting
// end's owner has not looked yet.
TEST_F(JoinAgain, AStreamThatIsAddedBeforeTheConnectionIsHandedOutWaitsForIt) {
  hello_.streams = 2;
  const Descriptor first = join();
  bootstrap::Hello second = hello_;
  second.stream = 1;
  hello_.purpose = bootstrap::Purpose::kRejoin;
  hello_.stream = 2;
  hello_.streams = 3;
  hello_.epoch = 1;
  const Descriptor added = join();
  hello_ = second;
  const Descriptor last = join();
  serve_until_accepted();
  if (HasFatalFailure()) return;
  for (const auto deadline = test::soon();
       connections_[0]->statistics().live_streams != 3 && !deadline.passed();)
    serve();
  EXPECT_EQ(connections_[0]->statistics().live_streams, 3u) << log_.text();
  send_message(added, 0);
  expect_message();
}

TEST_F(JoinAgain, AfterTheConnectionIsHandedOutGoesToThatConnection) {
  Descriptor lost = join();
  serve_until_accepted();
  if (HasFatalFailure()) return;
  // What was sent on the first stream goes again on the second, once the peer has said that nothing came.
  std::array<std::byte, 10> data{};
  Request* send = connections_[0]->post_send(data);
  connections_[0]->progress();
  reset(lost);
  hello_.epoch = 1;
  const Descriptor socket = join();
  std::vector<std::byte> bytes(kHeaderBytes);
  FrameHeader summary;
  summary.type = FrameType::kEpochSummary;
  encode(summary, std::span(bytes).first<kHeaderBytes>());
  test::RawPeer::say(socket, bytes);
  send_message(socket, 0);
  expect_message();
  if (HasFatalFailure()) return;
  // Its acknowledgement ends the send.
  FrameHeader heard;
  for (const auto deadline = test::soon(); heard.length != 10 && !deadline.passed();) {
    serve();
    if (recv(socket.get(), bytes.data(), kHeaderBytes, MSG_DONTWAIT | MSG_PEEK) <
        static_cast<ssize_t>(kHeaderBytes))
      continue;
    recv(socket.get(), bytes.data(), kHeaderBytes, 0);
    const auto header = decode(std::span<const std::byte, kHeaderBytes>(bytes));
    ASSERT_TRUE(header);
    heard = *header;
  }
  EXPECT_EQ(heard.type, FrameType::kChunk);
  EXPECT_EQ(heard.sequence, 0u);
  FrameHeader ack;
  ack.type = FrameType::kAck;
  ack.ack = 1;
  encode(ack, std::span(bytes).first<kHeaderBytes>());
  test::RawPeer::say(socket, bytes);
  std::size_t sent = 0;
  EXPECT_EQ(test::finish(*connections_[0], send, sent), Outcome::kDone) << log_.text();
  serve();
  EXPECT_EQ(connections_.size(), 1u) << log_.text();
}

TEST_F(JoinAgain, WhileBothAttemptsWaitFarFromEachOtherGoesToTheSameConnection) {
  join_twice_with_others_between();
  constexpr std::size_t kAll = bootstrap::AuthenticatingListener::kMostTaken + 1;
  const auto rejoined = [&] {
    return !connections_.empty() && connections_[0]->label() == kLabel &&
           connections_[0]->statistics().rejoins == 1;
  };
  for (const auto deadline = test::soon(); (connections_.size() < kAll || !rejoined()) && !deadline.passed();)
    serve();
  for (int turn = 0; turn < 10; ++turn) serve();
  EXPECT_EQ(connections_.size(), kAll) << log_.text();
  EXPECT_EQ(connections_of_one_connect(), 1) << log_.text();
  EXPECT_TRUE(rejoined()) << log_.text();
}

TEST_F(JoinAgain, IsDroppedWhereItWaitedWhileTheConnectionWasClosed) {
  join_twice_with_others_between();
  serve_until_accepted();
  if (HasFatalFailure()) return;
  ASSERT_EQ(connections_[0]->label(), kLabel);
  connections_.clear();
  constexpr std::size_t kOthers = bootstrap::AuthenticatingListener::kMostTaken;
  for (const auto deadline = test::soon(); connections_.size() < kOthers && !deadline.passed();) serve();
  for (int turn = 0; turn < 10; ++turn) serve();
  EXPECT_EQ(connections_.size(), kOthers) << log_.text();
  EXPECT_EQ(connections_of_one_connect(), 0) << log_.text();
  EXPECT_EQ(log_.count("the connection that it joins is closed"), 1u) << log_.text();
}

TEST_F(JoinAgain, AfterTheConnectionWasClosedIsRefused) {
  Descriptor lost = join();
  serve_until_accepted();
  if (HasFatalFailure()) return;
  reset(lost);
  connections_.clear();
  hello_.epoch = 1;
  join(bootstrap::HandshakeStatus::kGone);
  for (int turn = 0; turn < 10; ++turn) serve();
  EXPECT_TRUE(connections_.empty()) << log_.text();
}

// An epoch far ahead cost a turn of a loop for each epoch between.
TEST_F(JoinAgain, WithAnEpochThatNoHonestPeerReachesIsDropped) {
  const Descriptor socket = join();
  serve_until_accepted();
  if (HasFatalFailure()) return;
  hello_.purpose = bootstrap::Purpose::kRejoin;
  hello_.epoch = UINT32_MAX;
  const Descriptor far_ahead = join();
  for (const auto deadline = test::soon();
       log_.count("its epoch 4294967295 is more than") == 0 && !deadline.passed();)
    serve();
  EXPECT_EQ(log_.count("its epoch 4294967295 is more than 1048576 above the last, 0"), 1u) << log_.text();
  send_message(socket, 0);
  expect_message();
  hello_.epoch = kMostEpochsAhead;
  const Descriptor last = join();
  for (const auto deadline = test::soon(); connections_[0]->statistics().rejoins == 0 && !deadline.passed();)
    serve();
  send_message(last, 1);
  expect_message();
}

}  // namespace
}  // namespace tombolo::transport::tcp
