#include <gtest/gtest.h>

#include <cmath>

#include "bench/perf/report.h"

namespace tombolo::bench {
namespace {

TEST(PerfStatistics, AreNcclTests) {
  std::vector<double> seconds;
  for (int i = 100; i > 0; --i) seconds.push_back(i);
  const IterationStatistics all = statistics_of(seconds);
  EXPECT_EQ(all.least, 1);
  EXPECT_EQ(all.most, 100);
  EXPECT_DOUBLE_EQ(all.mean, 50.5);
  EXPECT_EQ(all.median, 51);
  EXPECT_EQ(all.p95, 95);
  EXPECT_EQ(all.p99, 99);
  EXPECT_NEAR(all.deviation, std::sqrt(833.25), 1e-9);
  EXPECT_EQ(statistics_of({3}).p99, 3);
  EXPECT_EQ(statistics_of({3}).variation_percent(), 0);
}

TEST(PerfSummary, AllowsATenthLessThanDemanded) {
  EXPECT_TRUE((Summary{0, 1, std::nullopt}.fast_enough()));
  EXPECT_TRUE((Summary{0, 9.1, 10}.fast_enough()));
  EXPECT_FALSE((Summary{0, 8.9, 10}.fast_enough()));
}

}  // namespace
}  // namespace tombolo::bench
