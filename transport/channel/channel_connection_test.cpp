#include "transport/channel/channel_connection.h"

#include <gtest/gtest.h>

#include <array>

#include "transport/testing/control_channels.h"

namespace tombolo::transport::channel {
namespace {

using std::chrono::seconds;

/// What is common to the connections, and nothing else: the test says what moves.
class Bare final : public ChannelConnection {
 public:
  explicit Bare(ControlChannel channel) : ChannelConnection(std::move(channel), "bare") {}
  using ChannelConnection::channel_handle;
  using ChannelConnection::count_turn;
  using ChannelConnection::fall_asleep;
  using ChannelConnection::set_error;
  using ChannelConnection::stalled;
  using ChannelConnection::wake_up;

  Request* post_send(std::span<const std::byte> data, Memory* = nullptr) noexcept override {
    PostedRequest* request = new_send(data);
    if (request != nullptr && !error_) outgoing_.push(request);
    return request;
  }
  Request* post_receive(std::span<std::byte> buffer, Memory* = nullptr) noexcept override {
    PostedRequest* request = new_receive(buffer);
    if (request != nullptr && !error_) incoming_.push(request);
    return request;
  }
  Outcome test(Request* request, std::size_t& bytes) noexcept override {
    return outcome_of(*static_cast<PostedRequest*>(request), bytes);
  }
  bool progress() noexcept override { return false; }
  void append_wait_handles(std::vector<pollfd>& handles) const override {
    handles.push_back(channel_handle(false));
  }
  void send_is_done(std::uint64_t sequence) { finish_send(sequence, *outgoing_.find(sequence)); }
  void receive_is_done(std::uint64_t sequence, std::size_t bytes) {
    finish_receive(sequence, *incoming_.find(sequence), bytes);
  }
};

class BareConnection : public testing::Test {
 protected:
  FakeClock clock_;
  std::pair<Descriptor, Descriptor> sockets_ = test::local_pair();
  Bare connection_{test::control_channel(std::move(sockets_.first), true, clock_)};  // idle timeout 10 s
  std::array<std::byte, 100> data_{};
};

TEST_F(BareConnection, FailsWhereThePeerTakesNothingForTenIdleTimeouts) {
  clock_.advance(seconds(1000));
  ASSERT_NE(connection_.post_send(data_), nullptr);
  EXPECT_EQ(connection_.stalled(), "") << "the time before there was something to send does not count";
  clock_.advance(seconds(99));
  EXPECT_EQ(connection_.stalled(), "");
  clock_.advance(seconds(1));
  EXPECT_EQ(connection_.stalled(), "the peer took nothing for 100 s, while sending message 0");
}

TEST_F(BareConnection, CountsTheTimeAnewWhereSomethingMoved) {
  connection_.post_send(data_);
  connection_.stalled();
  clock_.advance(seconds(99));
  connection_.count_turn(true);
  EXPECT_EQ(connection_.stalled(), "");
  clock_.advance(seconds(99));
  EXPECT_EQ(connection_.stalled(), "");
  connection_.send_is_done(0);
  clock_.advance(seconds(99));
  connection_.post_send(data_);
  EXPECT_EQ(connection_.stalled(), "") << "nothing was to be sent in between";
  clock_.advance(seconds(100));
  EXPECT_EQ(connection_.stalled(), "the peer took nothing for 100 s, while sending message 1");
}

TEST_F(BareConnection, AWaitingReceiveAloneIsNoFailure) {
  connection_.post_receive(data_);
  for (int hour = 0; hour < 5; ++hour) {
    EXPECT_EQ(connection_.stalled(), "");
    clock_.advance(std::chrono::hours(1));
  }
}

TEST_F(BareConnection, LooksAroundInEveryTurnOfAnOwnerThatCallsRarely) {
  connection_.count_turn(false);
  for (int turn = 0; turn < 10; ++turn) {
    clock_.advance(std::chrono::milliseconds(9));
    EXPECT_FALSE(connection_.count_turn(false)) << turn;
    clock_.advance(std::chrono::milliseconds(1));
    EXPECT_FALSE(connection_.count_turn(true)) << "nobody is to be looked for whose bytes come";
    EXPECT_TRUE(connection_.count_turn(false)) << turn;
    EXPECT_FALSE(connection_.count_turn(false)) << turn;
  }
}

TEST_F(BareConnection, LooksAroundAfterManyTurnsWithoutMovement) {
  int quiet = 0;
  while (!connection_.count_turn(false)) ASSERT_LT(++quiet, 10'000);
  // Movement begins the count anew.
  for (int turn = 0; turn < quiet; ++turn) ASSERT_FALSE(connection_.count_turn(false));
  EXPECT_FALSE(connection_.count_turn(true));
  for (int turn = 0; turn < quiet; ++turn) ASSERT_FALSE(connection_.count_turn(false));
  EXPECT_TRUE(connection_.count_turn(false));
}

TEST_F(BareConnection, HoldsAsManyRequestsAsItsWindowAndMoreOnceTheOldestIsDone) {
  std::vector<Request*> sends;
  while (Request* one = connection_.post_send(data_)) sends.push_back(one);
  ASSERT_EQ(sends.size(), kRequestsPerDirection);
  std::size_t bytes = 0;
  connection_.send_is_done(1);
  ASSERT_EQ(connection_.test(sends[1], bytes), Outcome::kDone);
  EXPECT_EQ(bytes, data_.size());
  EXPECT_EQ(connection_.post_send(data_), nullptr) << "the oldest still holds its place";
  connection_.send_is_done(0);
  ASSERT_EQ(connection_.test(sends[0], bytes), Outcome::kDone);
  EXPECT_NE(connection_.post_send(data_), nullptr);
  EXPECT_NE(connection_.post_send(data_), nullptr);
  EXPECT_EQ(connection_.post_send(data_), nullptr);
  EXPECT_EQ(connection_.statistics().messages_sent, 2u);
  EXPECT_EQ(connection_.statistics().bytes_sent, 2 * data_.size());
}

TEST_F(BareConnection, KeepsItsFirstErrorAndFailsAllThatIsPostedLater) {
  Request* done = connection_.post_receive(data_);
  Request* open = connection_.post_receive(data_);
  connection_.receive_is_done(0, 42);
  connection_.set_error(Cause::kTimeout, "the first");
  connection_.set_error(Cause::kRemote, "the second");
  ASSERT_NE(connection_.error(), nullptr);
  EXPECT_EQ(connection_.error()->cause(), Cause::kTimeout);
  const std::string text = connection_.error()->what();
  EXPECT_NE(text.find("bare connection to rank 1 on host right"), std::string::npos) << text;
  EXPECT_NE(text.find(": the first"), std::string::npos) << text;
  std::size_t bytes = 0;
  EXPECT_EQ(connection_.test(done, bytes), Outcome::kDone) << "what came before still counts";
  EXPECT_EQ(bytes, 42u);
  EXPECT_EQ(connection_.test(open, bytes), Outcome::kFailed);
  // There is always a request, however many fail.
  for (std::size_t i = 0; i < 3 * kRequestsPerDirection; ++i) {
    Request* late = connection_.post_send(data_);
    ASSERT_NE(late, nullptr);
    ASSERT_EQ(connection_.test(late, bytes), Outcome::kFailed);
  }
}

TEST_F(BareConnection, WakesOnceForEachSleep) {
  EXPECT_FALSE(connection_.wake_up());
  connection_.fall_asleep();
  EXPECT_TRUE(connection_.wake_up());
  EXPECT_FALSE(connection_.wake_up());
  pollfd handle = connection_.channel_handle(false);
  EXPECT_EQ(::poll(&handle, 1, 0), 0);
  handle = connection_.channel_handle(true);
  EXPECT_EQ(::poll(&handle, 1, 0), 1) << "there is to be another look at once";
}

}  // namespace
}  // namespace tombolo::transport::channel
