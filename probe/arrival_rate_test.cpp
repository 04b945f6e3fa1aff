#include "probe/arrival_rate.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <random>

namespace tombolo::probe {
namespace {

std::vector<double> steady(std::size_t count, double interval, double first = 0.02) {
  std::vector<double> times;
  for (std::size_t i = 0; i < count; ++i) times.push_back(first + static_cast<double>(i) * interval);
  return times;
}

/// The reader sees nothing between the two times.
void hold_up(std::vector<double>& times, double from, double to) {
  for (double& time : times)
    if (time > from && time < to) time = to;
}

TEST(ArrivalRate, OfASteadyStreamIsExact) {
  EXPECT_NEAR(arrival_rate(steady(9, 0.01)), 100, 1e-9);
  EXPECT_NEAR(arrival_rate(steady(2, 0.01)), 100, 1e-9);
}

TEST(ArrivalRate, OfFewerThanTwoMessagesIsZero) {
  EXPECT_EQ(arrival_rate({}), 0);
  EXPECT_EQ(arrival_rate({1.0}), 0);
}

TEST(ArrivalRate, IsNotMisledByAReaderHeldUp) {
  const std::pair<double, double> stalls[] = {{0.0, 0.06}, {0.05, 0.08}, {0.08, 0.2}};
  for (const auto& [from, to] : stalls) {
    auto times = steady(9, 0.01);
    hold_up(times, from, to);
    EXPECT_NEAR(arrival_rate(times), 100, 1e-6) << "held up from " << from << " to " << to;
  }
}

TEST(ArrivalRate, StaysNearWhenTheReaderIsHeldUpAtRandom) {
  const unsigned seed = std::random_device{}();
  SCOPED_TRACE(seed);
  std::mt19937 random(seed);
  for (int round = 0; round < 200; ++round) {
    auto times = steady(50, 0.01);
    for (int stall = 0; stall < 5; ++stall) {
      const double from = std::uniform_real_distribution(0.0, 0.5)(random);
      hold_up(times, from, from + std::uniform_real_distribution(0.0, 0.03)(random));
    }
    std::sort(times.begin(), times.end());
    EXPECT_NEAR(arrival_rate(times), 100, 15);
  }
}

TEST(ArrivalRate, AveragesWhatSpeedsUpAndLeavesOutWhatAnEmptyingBucketGave) {
  std::vector<double> speeding = {0, 0.03, 0.06, 0.07, 0.08};
  EXPECT_NEAR(arrival_rate(speeding), 4 / 0.08, 1e-9);
  std::vector<double> bucket = {0, 0.001, 0.002, 0.012, 0.022, 0.032, 0.042};
  EXPECT_NEAR(arrival_rate(bucket), 100, 1e-6);
}

}  // namespace
}  // namespace tombolo::probe
