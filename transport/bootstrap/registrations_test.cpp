#include "transport/bootstrap/registrations.h"

#include <gtest/gtest.h>

#include <cstring>

namespace tombolo::transport::bootstrap {
namespace {

using std::chrono::seconds;

Nonce nonce(std::uint32_t number) {
  Nonce made{};
  std::memcpy(made.data(), &number, sizeof number);
  return made;
}

class Registered : public testing::Test {
 protected:
  Registration find(Purpose purpose, std::uint32_t listener, const Nonce& connection = {}) {
    return registrations_.find({purpose, listener, connection});
  }
  Registrations registrations_;
  std::shared_ptr<const LocalEnd> one_ = std::make_shared<LocalEnd>(), other_ = std::make_shared<LocalEnd>();
  std::shared_ptr<Inbox> inbox_ = std::make_shared<Inbox>(), inbox_of_other_ = std::make_shared<Inbox>();
};

TEST_F(Registered, ListenersOfAllRoutersHaveNumbersOfTheirOwn) {
  const auto first = registrations_.open_listener(one_, inbox_);
  const auto second = registrations_.open_listener(other_, inbox_of_other_);
  EXPECT_NE(first, second);
  EXPECT_EQ(find(Purpose::kJoin, first).end, one_);
  EXPECT_EQ(find(Purpose::kJoin, first).inbox, inbox_);
  EXPECT_EQ(find(Purpose::kJoin, second).end, other_);
  EXPECT_EQ(find(Purpose::kJoin, 4711).end, nullptr);
  inbox_.reset();
  EXPECT_EQ(find(Purpose::kJoin, first).inbox, nullptr);
  registrations_.leave(*other_);
  EXPECT_EQ(find(Purpose::kJoin, second).end, nullptr);
  EXPECT_NE(registrations_.open_listener(other_, inbox_of_other_), second) << "a number is not used again";
}

TEST_F(Registered, AListenerIsReservedForAsLongAsSomebodyHoldsIt) {
  const auto plain = registrations_.open_listener(one_, inbox_);
  ReservedListener reserved = registrations_.reserve_for_legs(one_);
  EXPECT_NE(reserved.number, plain);
  EXPECT_EQ(find(Purpose::kJoin, reserved.number).inbox, reserved.inbox);
  EXPECT_TRUE(find(Purpose::kJoin, reserved.number).for_legs);
  EXPECT_FALSE(find(Purpose::kJoin, plain).for_legs);
  reserved.inbox.reset();
  EXPECT_EQ(find(Purpose::kJoin, reserved.number).inbox, nullptr);
}

TEST_F(Registered, BothEndsOfAConnectionMayBeHere) {
  ASSERT_TRUE(registrations_.open_connection(nonce(1), Side::kConnecting, one_, inbox_));
  ASSERT_TRUE(registrations_.open_connection(nonce(1), Side::kAccepting, other_, inbox_of_other_));
  EXPECT_EQ(find(Purpose::kRejoin, 0, nonce(1)).inbox, inbox_of_other_);
  EXPECT_EQ(find(Purpose::kAsk, 0, nonce(1)).inbox, inbox_);
  registrations_.close_connection(nonce(1), Side::kConnecting, nullptr, {}, TimePoint(seconds(1)));
  EXPECT_EQ(find(Purpose::kRejoin, 0, nonce(1)).inbox, inbox_of_other_) << "the other end is still open";
  EXPECT_EQ(find(Purpose::kAsk, 0, nonce(1)).inbox, nullptr);
}

TEST_F(Registered, AStreamThatJoinsAgainIsForItsConnectionOnceThatIsThere) {
  const auto listener = registrations_.open_listener(one_, inbox_);
  ASSERT_TRUE(registrations_.open_connection(nonce(1), Side::kConnecting, one_, std::make_shared<Inbox>()));
  EXPECT_EQ(find(Purpose::kJoin, listener, nonce(1)).inbox, inbox_);
  ASSERT_TRUE(registrations_.open_connection(nonce(1), Side::kAccepting, other_, inbox_of_other_));
  EXPECT_EQ(find(Purpose::kJoin, listener, nonce(1)).inbox, inbox_of_other_);
  EXPECT_EQ(find(Purpose::kJoin, listener + 1, nonce(1)).inbox, inbox_of_other_)
      << "the listener may be gone";
  EXPECT_EQ(find(Purpose::kJoin, listener, nonce(2)).inbox, inbox_);
  const TimePoint now{seconds(100)};
  registrations_.close_connection(nonce(1), Side::kAccepting, other_, now, now + seconds(60));
  EXPECT_EQ(find(Purpose::kJoin, listener, nonce(1)).end, other_);
  EXPECT_EQ(find(Purpose::kJoin, listener, nonce(1)).inbox, nullptr)
      << "it would begin the connection once more";
}

TEST_F(Registered, AConnectionIsBegunOnceUntilItIsForgotten) {
  const TimePoint now{seconds(100)};
  const auto open = [&](Side side, const std::shared_ptr<Inbox>& inbox) {
    return registrations_.open_connection(nonce(1), side, other_, inbox);
  };
  EXPECT_EQ(registrations_.find_connection(nonce(1), Side::kAccepting).end, nullptr);
  ASSERT_TRUE(registrations_.open_connection(nonce(1), Side::kAccepting, one_, inbox_));
  EXPECT_FALSE(open(Side::kAccepting, inbox_of_other_));
  EXPECT_EQ(registrations_.find_connection(nonce(1), Side::kAccepting).inbox, inbox_);
  EXPECT_EQ(registrations_.find_connection(nonce(1), Side::kConnecting).end, nullptr);
  EXPECT_TRUE(open(Side::kConnecting, inbox_of_other_)) << "the other end is another thing";
  registrations_.close_connection(nonce(1), Side::kAccepting, other_, now, now + seconds(60));
  EXPECT_FALSE(open(Side::kAccepting, inbox_of_other_));
  EXPECT_EQ(registrations_.find_connection(nonce(1), Side::kAccepting).end, other_);
  EXPECT_EQ(registrations_.find_connection(nonce(1), Side::kAccepting).inbox, nullptr);
  EXPECT_FALSE(registrations_.may_be_asked(now + seconds(60)));
  EXPECT_TRUE(open(Side::kAccepting, inbox_of_other_));
}

TEST_F(Registered, AClosedConnectionIsRememberedForItsTime) {
  const TimePoint now{seconds(100)};
  ASSERT_TRUE(registrations_.open_connection(nonce(1), Side::kAccepting, one_, inbox_));
  EXPECT_FALSE(registrations_.may_be_asked(now));
  registrations_.close_connection(nonce(1), Side::kAccepting, other_, now, now + seconds(60));
  EXPECT_EQ(find(Purpose::kRejoin, 0, nonce(1)).end, other_);
  EXPECT_TRUE(registrations_.may_be_asked(now + seconds(59)));
  EXPECT_EQ(find(Purpose::kRejoin, 0, nonce(1)).end, other_);
  EXPECT_FALSE(registrations_.may_be_asked(now + seconds(60)));
  EXPECT_EQ(find(Purpose::kRejoin, 0, nonce(1)).end, nullptr);
}

TEST_F(Registered, AClosedListenerMayBeAskedForWhereOthersKeepTheSocketsOpen) {
  const TimePoint now{seconds(100)};
  const std::uint32_t first = registrations_.open_listener(one_, inbox_);
  const std::uint32_t second = registrations_.open_listener(other_, inbox_);
  EXPECT_TRUE(registrations_.close_listener(first, now + seconds(60)));
  EXPECT_EQ(find(Purpose::kJoin, first, nonce(1)).end, nullptr);
  EXPECT_EQ(find(Purpose::kJoin, second, nonce(1)).end, other_);
  EXPECT_TRUE(registrations_.may_be_asked(now + seconds(59)));
  EXPECT_FALSE(registrations_.may_be_asked(now + seconds(60)));
  EXPECT_FALSE(registrations_.close_listener(second, now + seconds(200))) << "the sockets go with it";
  EXPECT_FALSE(registrations_.may_be_asked(now + seconds(60)));
}

TEST_F(Registered, OnlySoManyClosedOnesAreRemembered) {
  const TimePoint now{seconds(100)};
  constexpr auto kMost = static_cast<std::uint32_t>(Registrations::kMostClosed);
  for (std::uint32_t i = 0; i < kMost + 10; ++i) {
    ASSERT_TRUE(registrations_.open_connection(nonce(i), Side::kAccepting, one_, inbox_));
    registrations_.close_connection(nonce(i), Side::kAccepting, other_, now, now + seconds(60));
  }
  EXPECT_EQ(find(Purpose::kRejoin, 0, nonce(9)).end, nullptr);
  EXPECT_EQ(find(Purpose::kRejoin, 0, nonce(10)).end, other_);
  EXPECT_EQ(find(Purpose::kRejoin, 0, nonce(kMost + 9)).end, other_);
}

}  // namespace
}  // namespace tombolo::transport::bootstrap
