#include "transport/tcp/rate_limit.h"

#include <gtest/gtest.h>

#include "transport/test_support.h"

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

/// Bytes per second attained between two hosts whose NICs have the limits; sleeps on the wait handles.
double attained(double left_limit, double right_limit, int streams) {
  RouterOptions left_options = test::router_options("left"), right_options = test::router_options("right");
  left_options.tcp.streams = streams;
  if (left_limit > 0) left_options.limits = {{"eth0", left_limit}};
  if (right_limit > 0) right_options.limits = {{"eth0", right_limit}};
  Router left(left_options), right(right_options);
  auto listener = right.listen();
  auto [near, far] = test::connect_pair(left, *listener);
  std::vector<std::byte> message(1'200'000), buffer(message.size());
  auto begin = std::chrono::steady_clock::now();
  Request* send = near->post_send(message);
  Request* receive = far->post_receive(buffer);
  std::size_t bytes = 0;
  for (auto deadline = test::soon(); (send != nullptr || receive != nullptr) && !deadline.passed();) {
    if (send != nullptr && near->test(send, bytes) == Outcome::kDone) send = nullptr;
    if (receive != nullptr && far->test(receive, bytes) == Outcome::kDone) receive = nullptr;
    if (send != nullptr || receive != nullptr) {
      // Without a timeout of its own: the handles alone must wake it.
      std::vector<pollfd> handles;
      near->append_wait_handles(handles);
      far->append_wait_handles(handles);
      ::poll(handles.data(), handles.size(), deadline.poll_milliseconds());
    }
  }
  std::chrono::duration<double> elapsed = std::chrono::steady_clock::now() - begin;
  return static_cast<double>(message.size()) / elapsed.count();
}

void expect_rate(double left_limit, double right_limit, int streams) {
  // Another process may hold the processor for a while: of five tries the best counts. Too fast is never
  // right.
  double limit = 2e6, best = 0;
  for (int i = 0; i < 5 && best < 0.85 * limit; ++i) {
    double rate = attained(left_limit, right_limit, streams);
    ASSERT_LT(rate, 1.15 * limit);
    best = std::max(best, rate);
  }
  EXPECT_GT(best, 0.85 * limit);
}

TEST(NicLimit, BoundsWhatIsSentToItsRate) {
  expect_rate(2e6, 0, 1);
}
TEST(NicLimit, BoundsWhatIsReceivedToItsRate) {
  expect_rate(0, 2e6, 1);
}
TEST(NicLimit, BoundsSeveralStreamsTogether) {
  expect_rate(2e6, 2e6, 4);
}

}  // namespace
}  // namespace tombolo::transport::tcp
