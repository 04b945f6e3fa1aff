// How two ends come to agree over a control channel, with a backend whose test takes no time, or never ends.
#include "transport/channel/channel_set_up.h"

#include <gtest/gtest.h>
#include <sys/socket.h>

#include <optional>
#include <tuple>

#include "transport/memory/pair.h"
#include "transport/testing/control_channels.h"
#include "transport/testing/test_messages.h"

namespace tombolo::transport::channel {
namespace {

struct Message {
  static constexpr std::size_t kBytes = 64;
  enum class Kind : std::uint8_t { kOffer = 1, kAnswer, kProved, kRefusal };
  Kind kind = Kind::kOffer;
  std::uint8_t number = 0;
  std::string reason;

  static Message refusal(std::string_view reason) {
    return {Kind::kRefusal, 0, std::string(reason.substr(0, kBytes - 3))};
  }
  std::vector<std::byte> encode() const {
    std::vector<std::byte> bytes(kBytes);
    bytes[0] = static_cast<std::byte>(kind);
    bytes[1] = static_cast<std::byte>(number);
    for (std::size_t i = 0; i < reason.size(); ++i) bytes[2 + i] = static_cast<std::byte>(reason[i]);
    return bytes;
  }
  static Message decode(std::span<const std::byte> bytes) {
    Message message{static_cast<Kind>(bytes[0]), static_cast<std::uint8_t>(bytes[1]), {}};
    for (std::size_t i = 2; i < kBytes && bytes[i] != std::byte{0}; ++i)
      message.reason += static_cast<char>(bytes[i]);
    return message;
  }
};

/// Offers a number, which the other end answers by its double.
class Doubling final : public ChannelSetUp<Message> {
 public:
  Doubling(ControlChannel channel, bool test_ends)
      : ChannelSetUp(std::move(channel), "double", "a number was"), test_ends_(test_ends) {
    if (channel_.connecting) say({Kind::kOffer, 21, {}});
  }
  void let_the_test_end() { test_ends_ = true; }
  std::optional<std::uint8_t> proof;

 private:
  Kind hear(const Message& message) override {
    if (message.kind == Kind::kOffer) {
      if (message.number == 13) fail(Cause::kUnsupported, "no such number");
      say({Kind::kAnswer, static_cast<std::uint8_t>(2 * message.number), {}});
    }
    begin_test();
    return Kind::kProved;
  }
  void hear_proof(const Message& message) override { proof = message.number; }
  void watch_test() override {
    if (proved()) return;
    if (test_ends_) return prove({Kind::kProved, 7, {}});
    if (timer().passed()) give_up(Cause::kRemote, "no bytes get through");
  }
  std::unique_ptr<Connection> make() override { return memory::make_pair(channel_.label).first; }

  bool test_ends_;
};

class AgreeingOverAChannel : public testing::Test {
 protected:
  AgreeingOverAChannel() { std::tie(ends_[0], ends_[1]) = test::local_pair(); }
  ControlChannel channel(bool connecting) {
    return test::control_channel(std::move(ends_[connecting ? 0 : 1]), connecting, clock_);
  }
  /// A set-up whose other end this test plays by hand.
  std::unique_ptr<Doubling> against_me(bool connecting, bool test_ends = true) {
    return std::make_unique<Doubling>(channel(connecting), test_ends);
  }
  void say(const Message& message) { say(message.encode()); }
  void say(std::span<const std::byte> bytes) {
    const Descriptor& mine = ends_[0] ? ends_[0] : ends_[1];
    ASSERT_EQ(send(mine.get(), bytes.data(), bytes.size(), MSG_NOSIGNAL), static_cast<ssize_t>(bytes.size()));
  }
  Message heard() {
    const Descriptor& mine = ends_[0] ? ends_[0] : ends_[1];
    std::array<std::byte, Message::kBytes> bytes{};
    EXPECT_EQ(recv(mine.get(), bytes.data(), bytes.size(), 0), static_cast<ssize_t>(bytes.size()));
    return Message::decode(bytes);
  }
  static std::string failure_of(Doubling& one, Cause cause) {
    try {
      EXPECT_EQ(one.poll(), nullptr);
      EXPECT_EQ(one.poll(), nullptr);
    } catch (const Error& error) {
      EXPECT_EQ(error.cause(), cause) << error.what();
      return error.what();
    }
    return "no failure";
  }

  FakeClock clock_;
  Descriptor ends_[2];
};

TEST_F(AgreeingOverAChannel, BothEndsGetTheirConnectionOnceBothHaveProved) {
  Doubling left(channel(true), true), right(channel(false), false);
  for (int turn = 0; turn < 3; ++turn) {
    EXPECT_EQ(left.poll(), nullptr);
    EXPECT_EQ(right.poll(), nullptr);
  }
  EXPECT_FALSE(left.proof) << "its test still runs";
  right.let_the_test_end();
  auto far = right.poll();
  auto near = left.poll();
  ASSERT_TRUE(near && far);
  EXPECT_EQ(near->label(), 5u);
  EXPECT_EQ(left.proof, 7);
  EXPECT_EQ(right.proof, 7);
}

TEST_F(AgreeingOverAChannel, ARefusalIsHeardWithItsReason) {
  auto left = against_me(true);
  EXPECT_EQ(left->poll(), nullptr);
  EXPECT_EQ(heard().number, 21);
  say(Message::refusal("not today"));
  test::expect_in(failure_of(*left, Cause::kUnsupported), "the peer says: not today");
}

TEST_F(AgreeingOverAChannel, WhatTheBackendDoesNotTakeThePeerIsTold) {
  auto right = against_me(false);
  say({Message::Kind::kOffer, 13, {}});
  test::expect_in(failure_of(*right, Cause::kUnsupported), "no such number");
  const Message told = heard();
  EXPECT_EQ(told.kind, Message::Kind::kRefusal);
  EXPECT_EQ(told.reason, "no such number");
}

/// Once more, for each of several cases.
struct AnotherAgreement : AgreeingOverAChannel {
  using AgreeingOverAChannel::against_me, AgreeingOverAChannel::failure_of, AgreeingOverAChannel::heard,
      AgreeingOverAChannel::say;
  void TestBody() override {}
};

TEST_F(AgreeingOverAChannel, AMessageOutOfTurnIsRefused) {
  for (const auto kind : {Message::Kind::kAnswer, Message::Kind::kProved, static_cast<Message::Kind>(0)}) {
    AnotherAgreement other;
    auto right = other.against_me(false);
    other.say({kind, 1, {}});
    test::expect_in(failure_of(*right, Cause::kRemote), fmt::format("said {} where 1 was due", int(kind)));
    EXPECT_EQ(other.heard().kind, Message::Kind::kRefusal);
  }
}

TEST_F(AgreeingOverAChannel, APeerThatClosesIsToldFromOneThatIsSlow) {
  auto right = against_me(false);
  const auto offer = Message{Message::Kind::kOffer, 4, {}}.encode();
  say(std::span(offer).first(20));
  EXPECT_EQ(right->poll(), nullptr);
  ends_[0].reset();
  test::expect_in(failure_of(*right, Cause::kRemote),
                  "closed the control channel before a number was agreed on");
}

TEST_F(AgreeingOverAChannel, ASilentPeerIsGivenUpAtTheDeadline) {
  auto left = against_me(true);
  clock_.advance(std::chrono::seconds(29));
  EXPECT_EQ(left->poll(), nullptr);
  clock_.advance(std::chrono::seconds(1));
  test::expect_in(failure_of(*left, Cause::kTimeout), "the peer did not answer in time");
  EXPECT_EQ(heard().kind, Message::Kind::kOffer);
  EXPECT_EQ(heard().kind, Message::Kind::kRefusal) << "it may still listen";
}

TEST_F(AgreeingOverAChannel, APeerThatMayHaveItsConnectionIsToldNothing) {
  auto one = against_me(true);
  EXPECT_EQ(one->poll(), nullptr);
  EXPECT_EQ(heard().kind, Message::Kind::kOffer);
  say({Message::Kind::kAnswer, 42, {}});
  EXPECT_EQ(one->poll(), nullptr);
  EXPECT_EQ(heard().kind, Message::Kind::kProved);
  clock_.advance(std::chrono::seconds(30));
  test::expect_in(failure_of(*one, Cause::kTimeout), "the peer did not answer in time");
  one.reset();
  std::byte more{};
  const Descriptor& mine = ends_[0] ? ends_[0] : ends_[1];
  EXPECT_EQ(recv(mine.get(), &more, 1, 0), 0) << "the channel ends without a word";
}

TEST_F(AgreeingOverAChannel, ATestThatDoesNotEndIsGivenUpSoThatTimeIsLeftForAnotherWay) {
  auto left = against_me(true, false);
  say({Message::Kind::kAnswer, 42, {}});
  EXPECT_EQ(left->poll(), nullptr);
  std::vector<pollfd> handles;
  left->append_wait_handles(handles);
  EXPECT_EQ(handles.size(), 2u) << "the channel, and the test's timer";
  clock_.advance(std::chrono::seconds(9));
  EXPECT_EQ(left->poll(), nullptr);
  clock_.advance(std::chrono::seconds(1));
  test::expect_in(failure_of(*left, Cause::kRemote), "no bytes get through");
}

TEST(TestTimer, AllowsHalfOfTheTimeThatIsLeftAndTenSecondsAtMost) {
  FakeClock clock;
  TestTimer timer(&clock);
  timer.begin(Deadline::after(std::chrono::seconds(6), clock));
  EXPECT_EQ(timer.allowed(), std::chrono::seconds(3));
  timer.begin(Deadline::after(std::chrono::minutes(6), clock));
  EXPECT_EQ(timer.allowed(), std::chrono::seconds(10));
  EXPECT_FALSE(timer.passed());
  clock.advance(std::chrono::seconds(10));
  EXPECT_TRUE(timer.passed());
}

// Where no time is left it has passed, and its descriptor ends a sleep.
TEST(TestTimer, EndsASleepAlsoWithoutTime) {
  FakeClock clock;
  TestTimer timer(&clock);
  timer.begin(Deadline::after(Duration::zero(), clock));
  EXPECT_TRUE(timer.passed());
  pollfd one{timer.descriptor(), POLLIN, 0};
  EXPECT_EQ(::poll(&one, 1, 60'000), 1);
}

TEST(FirstNicPair, IsNamedWhereTheTwoEndsAgreeOverAnother) {
  const auto channel_over = [](const std::string& address) {
    ControlChannel channel = test::control_channel({}, true);
    channel.from.nic = "eth0";
    channel.from.address = "10.0.0.1";
    channel.route.peer_address = "10.0.0.2:77";
    channel.route.reason = "best";
    Offer from, to;
    from.address = address;
    to.address = "10.1.0.2";
    channel.nic_pairs = {{from, to}};
    note_first_nic_pair(channel);
    return channel.route;
  };
  EXPECT_EQ(channel_over("10.0.0.1").reason, "best");
  EXPECT_EQ(channel_over("10.0.0.1").peer_address, "10.0.0.2:77");
  EXPECT_EQ(channel_over("10.1.0.1").reason, "best; the two ends agree over eth0 -> 10.0.0.2:77");
  EXPECT_EQ(channel_over("10.1.0.1").peer_address, "10.1.0.2");
}

}  // namespace
}  // namespace tombolo::transport::channel
