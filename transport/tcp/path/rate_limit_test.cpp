#include "transport/tcp/path/rate_limit.h"

#include <gtest/gtest.h>

#include <deque>
#include <optional>
#include <tuple>

#include "transport/testing/test_support.h"

namespace tombolo::transport::tcp {
namespace {

using std::chrono::milliseconds;

TEST(RateLimit, PassesItsRateOverTimeAndABurstAtFirst) {
  FakeClock clock;
  clock.advance(std::chrono::hours(1));
  RateLimit limit(100e6);
  std::size_t burst = limit.allowance(clock.now());
  EXPECT_NEAR(static_cast<double>(burst), 2e6, 1) << "20 ms' worth";
  double passed = 0;
  for (int i = 0; i < 1000; ++i) {
    std::size_t now = limit.allowance(clock.now());
    limit.consume(now, clock.now());
    passed += static_cast<double>(now);
    clock.advance(milliseconds(1));
  }
  EXPECT_NEAR(passed, 100e6 + 2e6, 2e6);
}

TEST(RateLimit, SaysWhenItIsReadyAgain) {
  FakeClock clock;
  clock.advance(std::chrono::hours(1));
  RateLimit limit(1e6);
  limit.consume(limit.allowance(clock.now()), clock.now());
  EXPECT_EQ(limit.allowance(clock.now()), 0u);
  Duration wait = limit.until_ready(clock.now());
  EXPECT_GT(wait, Duration::zero());
  clock.advance(wait);
  EXPECT_GT(limit.allowance(clock.now()), 0u);
  EXPECT_EQ(limit.until_ready(clock.now()), Duration::zero());
}

/// Two hosts whose NICs have the limits, on a clock that moves only when told to.
class Limited {
 public:
  static constexpr double kRate = 2e6;
  static constexpr std::size_t kMessage = 10'000;

  Limited(bool sender, bool receiver, int streams) {
    RouterOptions left = test::router_options("left"), right = test::router_options("right");
    left.tcp.streams = streams;
    left.clock = right.clock = &clock_;
    if (sender) left.limits = {{"eth0", kRate}};
    if (receiver) right.limits = {{"eth0", kRate}};
    left_.emplace(left);
    right_.emplace(right);
    auto listener = right_->listen();
    std::tie(near_, far_) = test::connect_pair(*left_, *listener);
  }

  /// So many messages are on their way from now on.
  void post(std::size_t count) {
    message_.resize(kMessage);
    buffers_.assign(count, std::vector<std::byte>(kMessage));
    for (auto& buffer : buffers_) {
      sends_.push_back(near_->post_send(message_));
      receives_.push_back(far_->post_receive(buffer));
      ASSERT_TRUE(sends_.back() != nullptr && receives_.back() != nullptr);
    }
  }
  std::size_t arrived() {
    std::size_t bytes = 0;
    while (!sends_.empty() && near_->test(sends_.front(), bytes) == Outcome::kDone) sends_.pop_front();
    while (!receives_.empty() && far_->test(receives_.front(), bytes) == Outcome::kDone)
      receives_.pop_front();
    return buffers_.size() - receives_.size();
  }
  void advance(Duration by) { clock_.advance(by); }

 private:
  FakeClock clock_;
  std::optional<Router> left_, right_;
  std::unique_ptr<Connection> near_, far_;
  std::vector<std::byte> message_;
  std::vector<std::vector<std::byte>> buffers_;
  std::deque<Request*> sends_, receives_;
};

/// However fast or slow the machine is: by a time of the clock all that the rate allows arrives, and no more.
void expect_rate(bool sender, bool receiver, int streams) {
  Limited pair(sender, receiver, streams);
  constexpr std::size_t kMessages = 60;
  ASSERT_NO_FATAL_FAILURE(pair.post(kMessages));
  constexpr auto kStep = milliseconds(20);  // of which the bucket holds all
  constexpr double kBurst = 64 * 1024;      // passes at once
  double allowed = 0;
  for (std::size_t arrived = 0; arrived < kMessages; allowed += to_seconds(kStep) * Limited::kRate) {
    const auto least = static_cast<std::size_t>(0.9 * allowed / Limited::kMessage);
    for (auto deadline = test::soon(); arrived < std::min(least, kMessages); arrived = pair.arrived())
      ASSERT_FALSE(deadline.passed()) << arrived << " of " << least << " messages";
    for (int look = 0; look < 100; ++look) arrived = pair.arrived();
    ASSERT_LE(static_cast<double>(arrived * Limited::kMessage), allowed + kBurst);
    pair.advance(kStep);
  }
}

TEST(NicLimit, BoundsWhatIsSentToItsRate) {
  expect_rate(true, false, 1);
}
TEST(NicLimit, BoundsWhatIsReceivedToItsRate) {
  expect_rate(false, true, 1);
}
TEST(NicLimit, BoundsSeveralStreamsTogether) {
  expect_rate(true, true, 4);
}

// The bucket is empty again and again, and nothing but the handles tells when it has filled.
TEST(NicLimit, WakesWhoSleepsOnTheHandles) {
  RouterOptions left_options = test::router_options("left"), right_options = test::router_options("right");
  left_options.limits = right_options.limits = {{"eth0", 2e6}};
  Router left(left_options), right(right_options);
  auto listener = right.listen();
  auto [near, far] = test::connect_pair(left, *listener);
  std::vector<std::byte> message(300'000), buffer(message.size());
  Request* send = near->post_send(message);
  Request* receive = far->post_receive(buffer);
  std::size_t bytes = 0;
  const auto deadline = test::soon();
  while ((send != nullptr || receive != nullptr) && !deadline.passed()) {
    if (send != nullptr && near->test(send, bytes) == Outcome::kDone) send = nullptr;
    if (receive != nullptr && far->test(receive, bytes) == Outcome::kDone) receive = nullptr;
    if (send == nullptr && receive == nullptr) break;
    std::vector<pollfd> handles;
    near->append_wait_handles(handles);
    far->append_wait_handles(handles);
    ASSERT_GT(::poll(handles.data(), handles.size(), deadline.poll_milliseconds()), 0) << "slept through it";
  }
  EXPECT_FALSE(deadline.passed());
}

}  // namespace
}  // namespace tombolo::transport::tcp
