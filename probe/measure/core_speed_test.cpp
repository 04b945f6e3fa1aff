#include "probe/measure/core_speed.h"

#include <gtest/gtest.h>

#include "base/clock.h"
#include "base/units.h"

namespace tombolo::probe {
namespace {

TEST(CoreSpeed, ProductsAndTriadAreNoFasterThanTheClockSaw) {
  const TimePoint begin = Clock::steady().now();
  const double flops = time_products(64, 64, 64, 0.005);
  const double bytes = time_triad(kMiB, 0.005);
  const double whole = to_seconds(Clock::steady().now() - begin);
  // The clock saw at least one call of each beside the one that warms up.
  EXPECT_LT(2.0 * 64 * 64 * 64 / flops + static_cast<double>(kMiB) / bytes, whole);
  EXPECT_GT(flops, 0);
  EXPECT_GT(bytes, 0);
}

TEST(CoreSpeed, TheTriadLeavesTheCaches) {
  const std::size_t one = triad_bytes(1);
  EXPECT_GE(one, kMiB);
  EXPECT_LE(one, kGiB);
  EXPECT_LE(triad_bytes(1'000'000), one);
}

}  // namespace
}  // namespace tombolo::probe
