#include "transport/bootstrap/acceptor.h"

#include <gtest/gtest.h>

#include "base/error.h"
#include "transport/bootstrap/dial.h"
#include "transport/bootstrap/way.h"
#include "transport/tcp/backend.h"
#include "transport/testing/test_support.h"

namespace tombolo::transport::bootstrap {
namespace {

/// One process that accepts and dials itself.
class Accepting : public testing::Test {
 protected:
  static std::shared_ptr<const Local> make_local() {
    auto local = std::make_shared<Local>();
    local->host = "here";
    local->secret = Secret::from_text("the tests' secret");
    local->idle_timeout = std::chrono::seconds(60);
    local->backends = {std::make_shared<tcp::TcpBackend>(TcpOptions{}, std::vector<NicLimit>{}, Log{})};
    local->clock = &Clock::steady();
    return local;
  }
  static Endpoint self() {
    Endpoint endpoint;
    endpoint.host = "here";
    Offer offer;
    offer.nic = "lo";
    offer.address = "127.0.0.1";
    endpoint.offers = {offer};
    return endpoint;
  }
  /// Why the acceptor did not take the stream; empty where it did.
  std::string dial(Hello hello) {
    auto target = std::make_shared<Target>();
    target->nic = "lo";
    target->local_address = "127.0.0.1";
    target->peer = sockets::SocketAddress::parse("127.0.0.1", acceptor_.endpoint().offers[0].port);
    target->description = "connect to itself";
    const Deadline deadline = test::soon();
    Dial dial(local_, target, deadline);
    hello.process = helpers_->process();
    dial.greet(std::move(hello), 1);
    try {
      while (dial.poll() != Dial::State::kReady) {
        acceptor_.progress();
        if (deadline.passed()) return "no end within the deadline; last: " + dial.last_trouble();
      }
      return {};
    } catch (const Error& error) {
      return error.what();
    }
  }

  std::shared_ptr<const Local> local_ = make_local();
  std::shared_ptr<ProcessHelpers> helpers_ = std::make_shared<ProcessHelpers>();
  Acceptor acceptor_{helpers_, local_, self()};
};

TEST_F(Accepting, AStreamGoesToTheInboxOfItsListener) {
  const auto inbox = std::make_shared<Inbox>();
  Hello hello;
  hello.listener = acceptor_.open_listener(inbox);
  hello.label = 42;
  EXPECT_EQ(dial(hello), "");
  const auto stream = inbox->take();
  ASSERT_TRUE(stream);
  EXPECT_EQ(stream->hello.label, 42u);
  EXPECT_EQ(stream->hello.host, "here");
  const Route route = route_of(acceptor_, *stream);
  EXPECT_EQ(route.transport, "tcp");
  EXPECT_EQ(route.local_nic, "lo");
  EXPECT_EQ(route.peer_nic, "lo");
  EXPECT_EQ(route.peer_host, "here");
}

TEST_F(Accepting, AListenerThatIsGoneIsNamed) {
  Hello hello;
  hello.listener = acceptor_.open_listener(std::make_shared<Inbox>());
  EXPECT_EQ(dial(hello), "connect to itself: the peer's listener is gone");
}

TEST_F(Accepting, APeerMayAskWhetherAConnectionIsStillThere) {
  const auto inbox = std::make_shared<Inbox>();
  Hello hello;
  random_bytes(hello.connection);
  hello.purpose = Purpose::kAsk;
  ASSERT_TRUE(acceptor_.open_connection(hello.connection, Side::kConnecting, inbox));
  EXPECT_EQ(dial(hello), "");
  EXPECT_TRUE(inbox->empty()) << "a question is no stream of the connection";
  acceptor_.close_connection(hello.connection, Side::kConnecting);
  EXPECT_EQ(dial(hello), "connect to itself: the peer no longer has this connection");
}

// Anybody on the way could say so.
TEST_F(Accepting, AConnectionThatWasNeverHereFailsAnAttemptOnly) {
  auto target = std::make_shared<Target>();
  target->local_address = "127.0.0.1";
  target->peer = sockets::SocketAddress::parse("127.0.0.1", acceptor_.endpoint().offers[0].port);
  for (const Purpose purpose : {Purpose::kRejoin, Purpose::kAsk}) {
    Hello hello;
    hello.process = helpers_->process();
    hello.purpose = purpose;
    random_bytes(hello.connection);
    const Deadline deadline = test::soon();
    Dial dial(local_, target, deadline);
    dial.greet(hello, 1);
    while (dial.last_trouble().empty() && !deadline.passed()) {
      EXPECT_NE(dial.poll(), Dial::State::kReady);
      acceptor_.progress();
    }
    EXPECT_EQ(dial.last_trouble(), "the peer says that it does not know this connection");
  }
}

TEST_F(Accepting, AStreamThatJoinsAgainGoesToItsConnectionOrNowhere) {
  const auto listener = std::make_shared<Inbox>(), connection = std::make_shared<Inbox>();
  Hello hello;
  random_bytes(hello.connection);
  hello.listener = acceptor_.open_listener(listener);
  ASSERT_TRUE(acceptor_.open_connection(hello.connection, Side::kAccepting, connection));
  // The other end of a connection may be in this process too; no stream is for it.
  const auto other_end = std::make_shared<Inbox>();
  ASSERT_TRUE(acceptor_.open_connection(hello.connection, Side::kConnecting, other_end));
  hello.epoch = 1;
  EXPECT_EQ(dial(hello), "");
  EXPECT_TRUE(listener->empty());
  EXPECT_TRUE(other_end->empty());
  EXPECT_FALSE(connection->empty());
  acceptor_.close_connection(hello.connection, Side::kAccepting);
  hello.epoch = 2;
  EXPECT_EQ(dial(hello),
            "connect to itself: the peer's listener is gone, or has closed the connection already");
  EXPECT_TRUE(listener->empty()) << "it would begin the connection once more";
}

TEST_F(Accepting, ACarrierThatThisProcessCannotUseIsRefused) {
  Hello hello;
  hello.listener = acceptor_.open_listener(std::make_shared<Inbox>());
  hello.carrier = Carrier::kRdma;
  // The dialing end has to know the carrier, which the accepting end does not.
  class Rdma final : public Backend {
    Carrier carrier() const noexcept override { return Carrier::kRdma; }
    std::unique_ptr<Connecting> connect(std::shared_ptr<Acceptor>, Way) override { return nullptr; }
    std::unique_ptr<Connecting> accept(std::shared_ptr<Acceptor>, AuthenticatedStream) override {
      return nullptr;
    }
  };
  auto with_rdma = std::make_shared<Local>(*local_);
  with_rdma->backends.push_back(std::make_shared<Rdma>());
  local_ = with_rdma;
  EXPECT_EQ(dial(hello), "connect to itself: the peer cannot use rdma");
}

TEST(Patience, IsWhatTheHelloSaysUpToTenMinutes) {
  Hello hello;
  hello.patience_ms = 1500;
  EXPECT_EQ(patience_of(hello), std::chrono::milliseconds(1500));
  hello.patience_ms = UINT32_MAX;
  EXPECT_EQ(patience_of(hello), std::chrono::minutes(10));
}

}  // namespace
}  // namespace tombolo::transport::bootstrap
