// Connections whose NICs fail in the first moment, before either end has heard the other's first message.
#include <gtest/gtest.h>

#include <iostream>
#include <random>

#include "transport/testing/failover_fixture.h"
#include "transport/testing/random_exchange.h"
#include "transport/testing/raw_peer.h"

namespace tombolo::transport {
namespace {

/// Connects to peers of a build whose handshake does not say whereto further legs go.
class OlderPeersBackend final : public channel::ControlChannelBackend {
 public:
  explicit OlderPeersBackend(const std::string& host) : beneath_(host, 1, test::pretended_options(8)) {}
  Carrier carrier() const noexcept override { return test::PretendedRdmaBackend::kCarrier; }
  Resumes resumes() const noexcept override { return Resumes::kAlways; }
  std::unique_ptr<Connecting> set_up(channel::ControlChannel channel) override {
    channel.route.legs_listener = 0;
    return beneath_.set_up(std::move(channel));
  }

 private:
  test::PretendedRdmaBackend beneath_;
};

class FailoverBeginning : public test::FailoverTest {
 protected:
  /// The ends have told each other nothing yet but what the set-up says.
  void begin(std::size_t nics = 1, int queue_pairs = 1, std::size_t eager = 4096) {
    pair_ = test::connect_routers(options("left", nics, queue_pairs, eager),
                                  options("right", nics, queue_pairs, eager), 77);
    ASSERT_TRUE(pair_.first && pair_.second);
  }
  /// Only the left end is there: the owner of the right one has not accepted, and so has said nothing.
  std::unique_ptr<Listener> begin_alone(const RouterOptions& from, std::mt19937_64& random) {
    std::unique_ptr<Listener> listener;
    // Which end has proved the way first is chance.
    for (const auto deadline = test::soon(); !listener || pair_.second;) {
      pair_ = {};
      Router left(from), right(options("right", 1, 8));
      listener = right.listen();
      const auto connecting = left.connect(Endpoint::decode(listener->endpoint().encode()), {});
      while (!pair_.first) {
        if (deadline.passed()) {
          ADD_FAILURE() << "the right end was always first";
          return nullptr;
        }
        if (random() % 2 == 0)
          pair_.first = connecting->poll();
        else if (!pair_.second)
          pair_.second = listener->accept();
      }
    }
    return listener;
  }
};

TEST_F(FailoverBeginning, ACutAfterAnyPieceOfWorkOfTheSetUpLosesNothing) {
  std::mt19937_64 random(test_seed());
  const auto rounds = static_cast<std::size_t>(test_rounds(60));
  std::size_t moved = 0;
  for (std::size_t round = 0; round < rounds; ++round) {
    const std::size_t piece = 1 + 20 * round / rounds;  // however few rounds there are
    SCOPED_TRACE(fmt::format("cut after {} pieces of work", piece));
    verbs_.cut_after(piece, random() % 2 == 0);
    begin(1 + random() % 2, 1 + static_cast<int>(random() % 3), random() % 3 == 0 ? 100 : 4096);
    if (HasFatalFailure()) return;
    test::exchange_randomly(left(), right(), random, 12);
    if (HasFatalFailure()) return;
    // A cut during the test writes leads to TCP before there is a connection.
    const auto* first = dynamic_cast<FailoverConnection*>(&left());
    moved += first != nullptr && first->moves() > 0;
    EXPECT_EQ(left().statistics().messages_received, 12u);
    EXPECT_EQ(right().statistics().messages_sent, 12u);
    pair_ = {};
    verbs_.reset(static_cast<unsigned>(random()));
  }
  EXPECT_GT(moved, 0u) << "some cuts are behind the test writes";
  std::cout << moved << " of " << rounds << " connections moved\n";
}

TEST_F(FailoverBeginning, APortThatGoesDownRightAfterTheSetUpLosesNothing) {
  std::mt19937_64 random(test_seed());
  for (const std::size_t device : {0u, 2u}) {
    begin();
    if (HasFatalFailure()) return;
    ASSERT_EQ(left().route().transport, "carrier 6");
    verbs_.set_link(device, false);
    test::exchange_randomly(left(), right(), random, 12);
    if (HasFatalFailure()) return;
    EXPECT_EQ(left().route().transport, "tcp");
    EXPECT_EQ(right().route().transport, "tcp");
    EXPECT_EQ(moving(left()).moves(), 1u);
    pair_ = {};
    verbs_.reset(static_cast<unsigned>(random()));
  }
}

TEST_F(FailoverBeginning, AnEndMovesBeforeTheOwnerOfTheOtherHasAccepted) {
  std::mt19937_64 random(test_seed());
  for (const std::size_t device : {0u, 2u}) {
    const auto listener = begin_alone(options("left", 1, 8), random);
    ASSERT_NE(listener, nullptr);
    verbs_.set_link(device, false);
    std::byte byte{};
    Request* early = left().post_send({&byte, 1});
    for (const auto deadline = test::soon(); moving(left()).state() == FailoverState::kUp;) {
      ASSERT_FALSE(deadline.passed());
      left().progress();
    }
    EXPECT_EQ(left().error(), nullptr) << test::why_failed(left());
    for (const auto deadline = test::soon(); !pair_.second; pair_.second = listener->accept()) {
      ASSERT_FALSE(deadline.passed());
      left().progress();
    }
    Request* receive = right().post_receive({&byte, 1});
    std::size_t bytes = 0;
    EXPECT_EQ(test::finish(right(), receive, bytes, &left()), Outcome::kDone) << test::why_failed(right());
    EXPECT_EQ(test::finish(left(), early, bytes, &right()), Outcome::kDone) << test::why_failed(left());
    test::exchange_randomly(left(), right(), random, 12);
    if (HasFatalFailure()) return;
    EXPECT_EQ(left().route().transport, "tcp");
    pair_ = {};
    verbs_.reset(static_cast<unsigned>(random()));
  }
}

TEST_F(FailoverBeginning, AnOlderPeerSaysWheretoInItsFirstMessage) {
  const auto older = [&] {
    RouterOptions made = options("left");
    made.extra_backends = {
        [](const RouterOptions& given) { return std::make_shared<OlderPeersBackend>(given.host.name); }};
    return made;
  };
  connect(older(), options("right"));
  if (HasFatalFailure()) return;
  verbs_.set_link(0, false);
  std::mt19937_64 random(test_seed());
  test::exchange_randomly(left(), right(), random, 12);
  if (HasFatalFailure()) return;
  EXPECT_EQ(left().route().transport, "tcp");
  pair_ = {};
  verbs_.reset(1);

  const auto listener = begin_alone(older(), random);
  ASSERT_NE(listener, nullptr);
  verbs_.silence();
  std::byte byte{};
  left().post_send({&byte, 1});
  test::expect_in(failure_of(left()), "the peer's build says whereto in its first message alone");
}

TEST_F(FailoverBeginning, TheHandshakeSaysWhereToFurtherLegsGo) {
  using bootstrap::HandshakeStatus, bootstrap::Hello;
  Router router(options("right"));
  const auto listener = router.listen();
  std::unique_ptr<Connection> none;
  const auto accept = [&] { none = listener->accept(); };
  const auto greet = [&](const Hello& hello, Descriptor& socket) {
    socket = test::connected_to(*listener);
    return test::shake_hands(socket, hello, accept);
  };
  Descriptor first, second, leg;
  Hello hello = test::hello_for(*listener);
  hello.carrier = test::PretendedRdmaBackend::kCarrier;
  EXPECT_EQ(greet(hello, first).legs_listener, 0u) << "it does not want to go on over another way";
  hello = test::hello_for(*listener);
  hello.carrier = test::PretendedRdmaBackend::kCarrier;
  hello.resumable = true;
  const std::uint32_t at = greet(hello, first).legs_listener;
  EXPECT_NE(at, 0u);
  EXPECT_NE(at, listener->endpoint().listener);
  random_bytes(hello.connection);
  const std::uint32_t others = greet(hello, second).legs_listener;
  EXPECT_NE(others, 0u);
  EXPECT_NE(others, at) << "each connection has its own";
  // It may be asked for before the connection is there.
  hello.listener = at;
  random_bytes(hello.connection);
  const bootstrap::Reply further = greet(hello, leg);
  EXPECT_EQ(further.status, HandshakeStatus::kOk);
  EXPECT_EQ(further.legs_listener, at) << "a leg's further legs go where it went";
  // It goes with a connection that comes to nothing.
  first = Descriptor();
  random_bytes(hello.connection);
  for (const auto deadline = test::soon(); greet(hello, leg).status != HandshakeStatus::kGone;) {
    ASSERT_FALSE(deadline.passed());
    random_bytes(hello.connection);
  }
  hello.listener = others;
  random_bytes(hello.connection);
  EXPECT_EQ(greet(hello, leg).status, HandshakeStatus::kOk);
}

}  // namespace
}  // namespace tombolo::transport
