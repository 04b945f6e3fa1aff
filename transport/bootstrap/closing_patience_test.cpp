#include "transport/bootstrap/closing_patience.h"

#include <gtest/gtest.h>

namespace tombolo::transport::bootstrap {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;

constexpr TimePoint kBegin{seconds(1000)};

TEST(ClosingPatience, IsSpentByThoseThatWait) {
  ClosingPatience patience;
  EXPECT_EQ(patience.left(kBegin), ClosingPatience::kMost);
  patience.spend(milliseconds(500), kBegin);
  EXPECT_EQ(patience.left(kBegin), ClosingPatience::kMost - milliseconds(500));
  patience.spend(seconds(100), kBegin);
  EXPECT_EQ(patience.left(kBegin), Duration::zero());
}

TEST(ClosingPatience, GrowsBackAsTimePasses) {
  ClosingPatience patience;
  patience.spend(ClosingPatience::kMost, kBegin);
  EXPECT_EQ(patience.left(kBegin + seconds(1)), milliseconds(100));
  EXPECT_EQ(patience.left(kBegin + seconds(1000)), ClosingPatience::kMost);
}

TEST(ClosingPatience, OfManyThatWaitOneAfterTheOtherEndsWithinTwoSeconds) {
  ClosingPatience patience;
  TimePoint now = kBegin;
  for (int i = 0; i < 10'000; ++i) {
    const Duration waits = patience.left(now);
    now += waits;
    patience.spend(waits, now);
  }
  EXPECT_LT(now - kBegin, seconds(2));
}

}  // namespace
}  // namespace tombolo::transport::bootstrap
