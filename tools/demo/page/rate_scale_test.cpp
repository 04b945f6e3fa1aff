#include "tools/demo/page/rate_scale.h"

#include <gtest/gtest.h>

namespace tombolo::tools::demo {
namespace {

TEST(RateScale, GoesFromTheSlowestToTheFastest) {
  const RateScale scale(1e6, 1e9);
  EXPECT_EQ(scale.shade(1e6), 0);
  EXPECT_EQ(scale.shade(1e9), RateScale::kShades - 1);
  EXPECT_EQ(scale.shade(3.2e7), 3);  // the middle, 10^7.5, and a little more
  for (int shade = 0; shade < RateScale::kShades; ++shade) {
    EXPECT_EQ(scale.shade(scale.from(shade) * 1.001), shade);
    if (shade > 0) {
      EXPECT_EQ(scale.shade(scale.from(shade) * 0.999), shade - 1);
    }
  }
}

TEST(RateScale, ShowsSlowLinksThatDiffer) {
  const RateScale scale(3e5, 3e6);
  EXPECT_EQ(scale.shade(3e5), 0);
  EXPECT_EQ(scale.shade(3e6), RateScale::kShades - 1);
}

TEST(RateScale, RatesThatAreNearlyAlikeLookAlike) {
  const RateScale scale(1.00e8, 1.01e8);
  EXPECT_EQ(scale.shade(1.00e8), 0);
  EXPECT_EQ(scale.shade(1.01e8), 0);
}

TEST(RateScale, TakesAnyRate) {
  const RateScale nothing(0, 0);
  EXPECT_EQ(nothing.shade(0), 0);
  const RateScale scale(1e6, 1e8);
  EXPECT_EQ(scale.shade(0), 0);
  EXPECT_EQ(scale.shade(1e12), RateScale::kShades - 1);
}

}  // namespace
}  // namespace tombolo::tools::demo
