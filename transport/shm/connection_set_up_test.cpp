#include "transport/shm/connection_set_up.h"

#include <gtest/gtest.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/error.h"
#include "transport/sockets/secret.h"
#include "transport/testing/control_channels.h"
#include "transport/testing/test_messages.h"

namespace tombolo::transport::shm {
namespace {

/// One end, and a peer that this test plays by hand.
class ShmSetUp : public testing::Test {
 protected:
  std::unique_ptr<ConnectionSetUp> begin(bool connecting, bool fetch = true) {
    auto [near, far] = test::local_pair();
    socket_ = std::move(far);
    log_ = std::make_unique<test::LogBook>();
    return std::make_unique<ConnectionSetUp>(
        test::control_channel(std::move(near), connecting, Clock::steady(), log_->of("here")), fetch);
  }
  void say(const SetUpMessage& message) {
    const auto bytes = message.encode();
    ASSERT_EQ(send(socket_.get(), bytes.data(), bytes.size(), MSG_NOSIGNAL),
              static_cast<ssize_t>(bytes.size()));
  }
  SetUpMessage heard() {
    std::vector<std::byte> bytes(SetUpMessage::kBytes);
    EXPECT_EQ(recv(socket_.get(), bytes.data(), bytes.size(), 0), static_cast<ssize_t>(bytes.size()));
    return SetUpMessage::decode(bytes);
  }
  /// A good offer of this process.
  SetUpMessage offer() {
    segment_ = Mapping::create(file_);
    SetUpMessage message;
    random_bytes(message.token);
    segment_->token = message.token;
    message.kind = SetUpMessage::Kind::kOffer;
    message.descriptor = static_cast<std::uint32_t>(file_.get());
    message.process = static_cast<std::uint64_t>(::getpid());
    message.address = reinterpret_cast<std::uint64_t>(&value_);
    message.value = value_;
    return message;
  }
  SetUpMessage proof(bool can_fetch) const {
    SetUpMessage message;
    message.can_fetch = can_fetch;
    message.process = static_cast<std::uint64_t>(::getpid());
    message.address = reinterpret_cast<std::uint64_t>(&value_);
    message.value = value_;
    return message;
  }
  std::string refusal_of(const SetUpMessage& message) {
    auto right = begin(false);
    say(message);
    try {
      right->poll();
    } catch (const Error& error) {
      EXPECT_EQ(error.cause(), Cause::kUnsupported) << error.what();
      const SetUpMessage told = heard();
      EXPECT_EQ(told.kind, SetUpMessage::Kind::kRefusal);
      EXPECT_NE(std::string(error.what()).find(told.reason), std::string::npos) << "both say the same";
      return error.what();
    }
    return "it was taken";
  }

  std::uint64_t value_ = 0x1234'5678'9abc'def0;
  Descriptor socket_, file_;
  Mapping segment_;
  std::unique_ptr<test::LogBook> log_;
};

TEST_F(ShmSetUp, TheAcceptingEndMapsTheSegmentAndReadsTheValue) {
  auto right = begin(false);
  say(offer());
  EXPECT_EQ(right->poll(), nullptr);
  const SetUpMessage proved = heard();
  EXPECT_EQ(proved.kind, SetUpMessage::Kind::kProved);
  EXPECT_TRUE(proved.can_fetch);
  EXPECT_EQ(proved.process, static_cast<std::uint64_t>(::getpid()));
  EXPECT_EQ(*reinterpret_cast<const std::uint64_t*>(proved.address), proved.value)
      << "which the peer may try";
  say(proof(true));
  EXPECT_NE(right->poll(), nullptr);
  EXPECT_EQ(log_->count("(one copy)"), 1u) << log_->text();
}

TEST_F(ShmSetUp, MessagesAreFetchedOnlyWhereBothEndsCan) {
  for (const bool mine : {false, true}) {
    for (const bool theirs : {false, true}) {
      auto right = begin(false, mine);
      say(offer());
      EXPECT_EQ(right->poll(), nullptr);
      EXPECT_EQ(heard().can_fetch, mine);
      say(proof(theirs));
      EXPECT_NE(right->poll(), nullptr);
      EXPECT_EQ(log_->count("(one copy)"), mine && theirs ? 1u : 0u) << log_->text();
    }
  }
}

TEST_F(ShmSetUp, AValueThatReadsOtherwiseIsNotThePeersMemory) {
  for (const bool gone : {false, true}) {
    auto right = begin(false);
    SetUpMessage message = offer();
    if (gone)
      message.address = 16;  // nothing is mapped there
    else
      message.value += 1;
    say(message);
    EXPECT_EQ(right->poll(), nullptr);
    EXPECT_FALSE(heard().can_fetch);
    say(proof(true));
    EXPECT_NE(right->poll(), nullptr) << "the ring carries it";
    EXPECT_EQ(log_->count("(one copy)"), 0u) << log_->text();
  }
}

TEST_F(ShmSetUp, ASegmentThatCannotBeUsedIsRefusedWithTheReason) {
  SetUpMessage message = offer();
  message.segment_bytes += 64;
  test::expect_in(refusal_of(message), "the peer's segment has another layout");
  message = offer();
  message.token[3] ^= std::byte{1};
  test::expect_in(refusal_of(message), "that is another process's segment");
  message = offer();
  message.descriptor = 1 << 20;
  test::expect_in(refusal_of(message), "may not open the peer's shared memory");
}

TEST_F(ShmSetUp, TheConnectingEndOffersASegmentOfItsOwn) {
  auto left = begin(true);
  EXPECT_EQ(left->poll(), nullptr);
  const SetUpMessage offered = heard();
  EXPECT_EQ(offered.kind, SetUpMessage::Kind::kOffer);
  EXPECT_EQ(offered.segment_bytes, sizeof(Segment));
  const Mapping mapped =
      Mapping::open(static_cast<std::int64_t>(offered.process), static_cast<int>(offered.descriptor));
  EXPECT_EQ(mapped->token, offered.token);
  say(proof(true));
  EXPECT_NE(left->poll(), nullptr);
  const SetUpMessage proved = heard();
  EXPECT_EQ(proved.kind, SetUpMessage::Kind::kProved);
  EXPECT_TRUE(proved.can_fetch);
  // The segment's file is closed: the mappings keep it.
  EXPECT_THROW(
      Mapping::open(static_cast<std::int64_t>(offered.process), static_cast<int>(offered.descriptor)), Error);
}

TEST_F(ShmSetUp, ARefusalEndsTheConnectingEnd) {
  auto left = begin(true);
  EXPECT_EQ(left->poll(), nullptr);
  say(SetUpMessage::refusal("another PID namespace"));
  try {
    left->poll();
    ADD_FAILURE() << "it went on";
  } catch (const Error& error) {
    EXPECT_EQ(error.cause(), Cause::kUnsupported);
    test::expect_in(error.what(), "the peer says: another PID namespace");
  }
}

}  // namespace
}  // namespace tombolo::transport::shm
