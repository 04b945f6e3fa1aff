#include "base/clock.h"

#include <gtest/gtest.h>

namespace tombolo {
namespace {

using std::chrono::microseconds;
using std::chrono::milliseconds;

TEST(Deadline, PassesWhenItsClockReachesIt) {
  FakeClock clock;
  auto deadline = Deadline::after(milliseconds(5), clock);
  EXPECT_FALSE(deadline.passed());
  clock.advance(milliseconds(4));
  EXPECT_EQ(deadline.remaining(), milliseconds(1));
  clock.advance(milliseconds(2));
  EXPECT_TRUE(deadline.passed());
  EXPECT_EQ(deadline.remaining(), Duration::zero());
  EXPECT_EQ(deadline.allowed(), milliseconds(5));
}

TEST(Deadline, RoundsPollTimeoutsUpSoThatAWaitNeverWakesTooEarly) {
  FakeClock clock;
  auto deadline = Deadline::after(microseconds(1500), clock);
  EXPECT_EQ(deadline.poll_milliseconds(), 2);
  clock.advance(microseconds(1500));
  EXPECT_EQ(deadline.poll_milliseconds(), 0);
}

TEST(SteadyClock, KnowsRoughlyHowLateItIs) {
  const Clock& clock = Clock::steady();
  const auto deadline = Deadline::after(std::chrono::seconds(60));
  const TimePoint first = clock.roughly_now();
  EXPECT_LE(first, clock.now());
  TimePoint last = first;
  for (int moves = 0; moves < 3;) {
    ASSERT_FALSE(deadline.passed()) << "it stands still";
    const TimePoint rough = clock.roughly_now();
    ASSERT_GE(rough, last);
    ASSERT_LE(rough, clock.now());
    if (rough > last) ++moves;
    last = rough;
  }
}

}  // namespace
}  // namespace tombolo
