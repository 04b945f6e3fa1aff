#include "transport/tcp/lifecycle/peer_question.h"

#include <gtest/gtest.h>

#include "transport/bootstrap/acceptor.h"
#include "transport/tcp/backend.h"
#include "transport/testing/test_support.h"

namespace tombolo::transport::tcp {
namespace {

using bootstrap::Side;
using std::chrono::milliseconds;
using std::chrono::seconds;
using Answer = PeerQuestion::Answer;

/// One process that asks itself.
class AQuestion : public testing::Test {
 protected:
  AQuestion() {
    auto local = std::make_shared<bootstrap::Local>();
    local->host = "here";
    local->secret = Secret::from_text("the tests' secret");
    local->idle_timeout = seconds(60);
    local->backends = {std::make_shared<TcpBackend>(TcpOptions{}, std::vector<NicLimit>{}, Log{})};
    local->clock = &Clock::steady();
    local_ = local;
    Endpoint endpoint;
    Offer offer;
    offer.nic = "lo";
    offer.address = "127.0.0.1";
    endpoint.offers = {offer};
    acceptor_ = std::make_unique<bootstrap::Acceptor>(helpers_, local_, endpoint);
    auto target = std::make_shared<bootstrap::Target>();
    target->local_address = "127.0.0.1";
    target->peer = sockets::SocketAddress::parse("127.0.0.1", acceptor_->endpoint().offers[0].port);
    target->description = "ask the peer";
    target_ = target;
    // The peer's process sent the hello, so that the question goes to that one.
    joined_.sender = helpers_->process();
    random_bytes(joined_.connection);
  }
  Answer poll(Duration after) { return question_.poll(local_, target_, joined_, refusals_, begun_ + after); }
  Answer answer(Duration after) {
    Answer came = Answer::kNone;
    for (const auto deadline = test::soon(); came == Answer::kNone && !deadline.passed();) {
      came = poll(after);
      if (acceptor_) acceptor_->progress();
    }
    return came;
  }
  bool under_way() {
    std::vector<pollfd> handles;
    const Duration longest = question_.append_wait_handles(handles, Clock::steady().now());
    return !handles.empty() || longest != Duration::max();
  }

  std::shared_ptr<const bootstrap::Local> local_;
  std::shared_ptr<bootstrap::ProcessHelpers> helpers_ = std::make_shared<bootstrap::ProcessHelpers>();
  std::unique_ptr<bootstrap::Acceptor> acceptor_;
  std::shared_ptr<const bootstrap::Target> target_;
  std::shared_ptr<bootstrap::Inbox> inbox_ = std::make_shared<bootstrap::Inbox>();
  bootstrap::Hello joined_;
  Refusals refusals_;
  PeerQuestion question_;
  const TimePoint begun_ = Clock::steady().now();
};

TEST_F(AQuestion, IsAnsweredByAPeerThatHasTheConnectionAndAskedOncePerSecond) {
  ASSERT_TRUE(acceptor_->open_connection(joined_.connection, Side::kConnecting, inbox_));
  refusals_.note(0, true, false);
  EXPECT_EQ(answer({}), Answer::kLives) << refusals_.last();
  EXPECT_FALSE(refusals_.all_of(1)) << "what was noted before counts no more";
  EXPECT_FALSE(under_way());
  EXPECT_EQ(poll(milliseconds(999)), Answer::kNone);
  EXPECT_FALSE(under_way());
  EXPECT_EQ(answer(milliseconds(1000)), Answer::kLives) << refusals_.last();
  acceptor_->close_connection(joined_.connection, Side::kConnecting);
}

TEST_F(AQuestion, TellsThatThePeerHasTheConnectionNoMore) {
  ASSERT_TRUE(acceptor_->open_connection(joined_.connection, Side::kConnecting, inbox_));
  acceptor_->close_connection(joined_.connection, Side::kConnecting);
  EXPECT_EQ(answer({}), Answer::kGone);
  EXPECT_EQ(refusals_.last(), "ask the peer: the peer no longer has this connection");
}

// Anybody on the way could say so.
TEST_F(AQuestion, ToWhomKnowsNothingOfTheConnectionIsAskedAgainALittleLater) {
  EXPECT_EQ(answer({}), Answer::kUnreached);
  EXPECT_EQ(refusals_.last(), "the peer says that it does not know this connection");
  EXPECT_FALSE(refusals_.all_of(1));
  EXPECT_EQ(poll(milliseconds(19)), Answer::kNone);
  EXPECT_FALSE(under_way());
  (void)poll(milliseconds(20));
  EXPECT_TRUE(under_way());
  question_.drop();
  EXPECT_FALSE(under_way());
}

TEST_F(AQuestion, ToAPortThatRefusesSaysSo) {
  acceptor_.reset();
  EXPECT_EQ(answer({}), Answer::kUnreached);
  EXPECT_TRUE(refusals_.all_of(1)) << refusals_.last();
}

}  // namespace
}  // namespace tombolo::transport::tcp
