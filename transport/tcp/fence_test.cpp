// A TCP connection that is left for another way, with messages under way.
#include <gtest/gtest.h>

#include "transport/resumable.h"
#include "transport/testing/test_messages.h"

namespace tombolo::transport::tcp {
namespace {

class Fence : public testing::Test {
 protected:
  void SetUp() override {
    pair_ = test::connect_routers(test::router_options("left"), test::router_options("right"));
    ASSERT_TRUE(pair_.first && pair_.second);
    ASSERT_NE(left().resumable(), nullptr);
  }
  Connection& left() { return *pair_.first; }
  Connection& right() { return *pair_.second; }
  using Messages = std::vector<std::pair<std::uint64_t, std::vector<std::byte>>>;
  static Messages left_behind_by(Connection& one) {
    Messages unsure;
    EXPECT_FALSE(
        one.resumable()->fence([](auto...) { ADD_FAILURE() << "no message comes before its receive"; },
                               [&](std::uint64_t sequence, std::span<const std::byte> bytes) {
                                 unsure.emplace_back(sequence, std::vector(bytes.begin(), bytes.end()));
                               }));
    return unsure;
  }

  std::mt19937_64 random_{test_seed()};
  test::Pair pair_;
};

TEST_F(Fence, HandsOverWhatCountsAsSentAndIsNotAcknowledged) {
  std::vector<std::vector<std::byte>> sent;
  std::size_t bytes = 0;
  for (int i = 0; i < 12; ++i) {
    sent.push_back(test::random_data(random_, i == 5 ? 0 : random_() % 8000));
    Request* send = left().post_send(sent.back());
    ASSERT_EQ(test::finish(left(), send, bytes, &right()), Outcome::kDone);
    if (i >= 3) continue;
    std::vector<std::byte> buffer(8000);
    ASSERT_EQ(test::finish(right(), right().post_receive(buffer), bytes, &left()), Outcome::kDone);
  }
  std::vector<std::byte> large(4'000'000);
  Request* waits = left().post_send(large);
  left().progress();
  const Messages unsure = left_behind_by(left());
  // Of the three that were received some may be acknowledged.
  ASSERT_GE(unsure.size(), 9u);
  ASSERT_LE(unsure.size(), 12u);
  for (std::size_t i = 0; i < unsure.size(); ++i) {
    const std::size_t number = 12 - unsure.size() + i;
    EXPECT_EQ(unsure[i].first, number);
    EXPECT_EQ(unsure[i].second, sent[number]);
  }
  EXPECT_EQ(left().test(waits, bytes), Outcome::kFailed) << "its owner has the buffer";
  EXPECT_TRUE(left_behind_by(left()).empty()) << "only once";
  EXPECT_TRUE(left().resumable()->path_failed());
}

TEST_F(Fence, SaysWhyWhatMayNotHaveArrivedCannotBeTaken) {
  const std::vector<std::byte> message(100);
  std::size_t bytes = 0;
  ASSERT_EQ(test::finish(left(), left().post_send(message), bytes, &right()), Outcome::kDone);
  const auto missing = left().resumable()->fence([](auto...) {}, [](auto...) { throw std::bad_alloc(); });
  ASSERT_TRUE(missing);
  EXPECT_EQ(missing->cause(), Cause::kSystem);
  test::expect_in(missing->what(), "what may not have arrived cannot be taken: std::bad_alloc");
  EXPECT_NE(test::why_failed(left()), missing->what()) << "that is why the way was left";
}

TEST_F(Fence, TheOtherEndLearnsThatItWasLeftAndNotClosed) {
  left_behind_by(left());
  for (const auto deadline = test::soon(); right().error() == nullptr;) {
    right().progress();
    ASSERT_FALSE(deadline.passed());
  }
  EXPECT_TRUE(right().resumable()->path_failed()) << test::why_failed(right());
}

// Behind part of a chunk no goodbye can be said.
TEST_F(Fence, TheOtherEndLearnsItInTheMiddleOfAMessageToo) {
  for (const bool from_left : {true, false}) {
    SetUp();
    Connection& near = from_left ? left() : right();
    Connection& far = from_left ? right() : left();
    std::vector<std::byte> large(64 << 20), buffer(64 << 20);
    near.post_send(large);
    far.post_receive(buffer);
    for (int i = 0; i < 5; ++i) near.progress();
    left_behind_by(near);
    for (const auto deadline = test::soon(); far.error() == nullptr;) {
      far.progress();
      ASSERT_FALSE(deadline.passed());
    }
    EXPECT_TRUE(far.resumable()->path_failed()) << test::why_failed(far);
  }
}

TEST_F(Fence, APeerThatClosesHasNotLeftForAnotherWay) {
  pair_.second.reset();
  for (const auto deadline = test::soon(); left().error() == nullptr;) {
    left().progress();
    ASSERT_FALSE(deadline.passed());
  }
  EXPECT_FALSE(left().resumable()->path_failed()) << test::why_failed(left());
}

}  // namespace
}  // namespace tombolo::transport::tcp
