#include "transport/measure/arrival_rate.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <random>

#include "base/randomized_test.h"

namespace tombolo::transport::measure {
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
  std::mt19937 random(test_seed());
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

TEST(RatesTogether, AreMeansOfTheTimeInWhichAllCame) {
  // One line of 200 messages a second: the first alone, both, the second alone.
  Arrivals first{10, {}}, second{10, {}};
  for (int i = 0; i < 40; ++i) first.seconds.push_back(0.005 * i);
  for (int i = 0; i <= 30; ++i) {
    first.seconds.push_back(0.2 + 0.01 * i);
    second.seconds.push_back(0.2 + 0.01 * i);
  }
  for (int i = 1; i < 40; ++i) second.seconds.push_back(0.5 + 0.005 * i);
  const auto rates = rates_together({first, second});
  EXPECT_NEAR(rates[0], 1000, 1e-6);
  EXPECT_NEAR(rates[1], 1000, 1e-6);
  EXPECT_GT(10 * arrival_rate(first.seconds) + 10 * arrival_rate(second.seconds), 3000);
}

TEST(RatesTogether, AreNotMoreForAReaderThatIsHeldUpFirst) {
  auto late = steady(50, 0.01, 0);
  hold_up(late, 0.0, 0.1);
  late.front() = 0.05;
  const auto rates = rates_together({{10, late}, {10, steady(50, 0.01, 0)}});
  EXPECT_NEAR(rates[0], 1000, 1e-6);
  EXPECT_NEAR(rates[1], 1000, 1e-6);
}

TEST(RatesIn, TheOverlapOfSeveralProcessesAreThoseOfOneThatSeesAllStreams) {
  const Arrivals first{10, steady(60, 0.01, 0)}, second{10, steady(30, 0.02, 0.1)};
  const Overlap here = overlap_of({first}), there = overlap_of({second});
  const Overlap all{std::max(here.from, there.from), std::min(here.to, there.to),
                    std::max(here.longest, there.longest)};
  EXPECT_TRUE(all.is_representative());
  const auto together = rates_together({first, second});
  EXPECT_EQ(rates_in({first}, all).front(), together[0]);
  EXPECT_EQ(rates_in({second}, all).front(), together[1]);
  EXPECT_TRUE(rates_in({}, all).empty());  // of a process that has none
  EXPECT_FALSE(overlap_of({first, {10, {}}}).is_representative()) << "one did not come";
}

TEST(RatesTogether, OfStreamsThatHardlyMetAreEachItsOwn) {
  const Arrivals early{8, steady(9, 0.01, 0)}, late{8, steady(9, 0.02, 0.07)};
  const auto rates = rates_together({early, late});
  EXPECT_NEAR(rates[0], 800, 1e-6);
  EXPECT_NEAR(rates[1], 400, 1e-6);
  EXPECT_NEAR(rates_together({early}).front(), 800, 1e-6);
  EXPECT_EQ(rates_together({early, {8, {}}})[1], 0);
}

}  // namespace
}  // namespace tombolo::transport::measure
