#include "planner/simulate/fluid.h"

#include <gtest/gtest.h>

#include <random>
#include <vector>

#include "base/error.h"

namespace tombolo::planner {
namespace {

TEST(FluidEngine, AnActivityAloneRunsAtItsOwnLimit) {
  FluidEngine engine;
  const auto nic = engine.add_resource(100);
  const auto flow = engine.add(50, 10, {nic});
  engine.run();
  EXPECT_DOUBLE_EQ(engine.end(flow), 5);
}

TEST(FluidEngine, TheLeastFinishIsTheLongestChainAsIfNothingShared) {
  FluidEngine engine;
  EXPECT_EQ(engine.least_finish(), 0);
  const auto nic = engine.add_resource(10);
  const auto first = engine.add(20, 100, {nic}), second = engine.add_delay(3);
  engine.order(first, second);
  engine.add(40, 100, {nic});
  EXPECT_DOUBLE_EQ(engine.least_finish(), 5);
  engine.run();
  EXPECT_DOUBLE_EQ(engine.finish(), 7);
  engine.clear();
  EXPECT_EQ(engine.size(), 0U);
  engine.add_delay(1);
  engine.run();
  EXPECT_DOUBLE_EQ(engine.finish(), 1);
}

TEST(FluidEngine, TwoFlowsOnOneResourceHalveEachOther) {
  FluidEngine engine;
  const auto nic = engine.add_resource(10);
  const auto a = engine.add(50, 10, {nic}), b = engine.add(50, 10, {nic});
  engine.run();
  EXPECT_DOUBLE_EQ(engine.end(a), 10);
  EXPECT_DOUBLE_EQ(engine.end(b), 10);
}

TEST(FluidEngine, AnActivityForSeveralTakesTheirShares) {
  FluidEngine engine;
  const auto nic = engine.add_resource(10), link = engine.add_resource(12);
  // Three of 3 units each, every one through a NIC of its own, and one more over their link.
  const FluidEngine::Use uses[] = {{nic, 1}, {link, 3}};
  const auto three = engine.add_alike(3, 10, uses), one = engine.add(5, 10, {link});
  engine.run();
  EXPECT_DOUBLE_EQ(engine.end(three), 1);  // 12 / 4
  EXPECT_DOUBLE_EQ(engine.end(one), 1.2);  // 3 at 3 per second, then 2 at 10
  FluidEngine bucket;
  const auto full = bucket.add_resource(10, 5);
  const FluidEngine::Use twice[] = {{full, 2}};
  EXPECT_THROW(bucket.add_alike(1, 10, twice), Error);
}

TEST(FluidEngine, TheLongerFlowSpeedsUpWhenTheShorterEnds) {
  FluidEngine engine;
  const auto nic = engine.add_resource(10);
  const auto small = engine.add(20, 10, {nic}), large = engine.add(60, 10, {nic});
  engine.run();
  EXPECT_DOUBLE_EQ(engine.end(small), 4);  // 20 at 5 per second
  EXPECT_DOUBLE_EQ(engine.end(large), 8);  // 20 at 5, then 40 at 10
}

TEST(FluidEngine, SharesAreMaxMinFairAcrossResources) {
  // a and b leave by one NIC of 10; b and c arrive at one of 6, so c and b get 3 each, and a the 7 that b
  // leaves.
  FluidEngine engine;
  const auto out = engine.add_resource(10), in = engine.add_resource(6);
  const auto a = engine.add(7, 100, {out}), b = engine.add(3, 100, {out, in}), c = engine.add(3, 100, {in});
  engine.run();
  EXPECT_DOUBLE_EQ(engine.end(a), 1);
  EXPECT_DOUBLE_EQ(engine.end(b), 1);
  EXPECT_DOUBLE_EQ(engine.end(c), 1);
}

TEST(FluidEngine, AnActivityMayNeedManyResources) {
  FluidEngine engine;
  std::vector<FluidEngine::Resource> all;
  for (const double capacity : {9.0, 8.0, 4.0, 7.0, 6.0}) all.push_back(engine.add_resource(capacity));
  const auto through = engine.add(6, 100, all), other = engine.add(8, 100, {all[2]});
  engine.run();
  EXPECT_DOUBLE_EQ(engine.end(through), 3);  // half of 4
  EXPECT_DOUBLE_EQ(engine.end(other), 3.5);  // 6 at 2, then 2 at 4
}

TEST(FluidEngine, ATokenBucketGivesAwayWhatItGatheredDuringAPause) {
  FluidEngine engine;
  const auto bucket = engine.add_resource(10, 20), line = engine.add_resource(10);
  const auto first = engine.add(50, 10, {bucket});
  const auto pause = engine.add_delay(1), second = engine.add(30, 10, {bucket});
  const auto third = engine.add(30, 10, {bucket}), small = engine.add(5, 10, {bucket}),
             behind_line = engine.add(10, 10, {bucket, line});
  const auto long_pause = engine.add_delay(100), second_pause = engine.add_delay(100);
  engine.order(first, pause);
  engine.order(pause, second);
  engine.order(second, third);
  engine.order(third, long_pause);
  engine.order(long_pause, small);
  engine.order(small, second_pause);
  engine.order(second_pause, behind_line);
  engine.run();
  EXPECT_DOUBLE_EQ(engine.end(first), 3);       // full at the beginning: 50 less 20
  EXPECT_DOUBLE_EQ(engine.end(second), 4 + 2);  // 10 in a second
  EXPECT_DOUBLE_EQ(engine.end(third), 9) << "no pause, no tokens";
  EXPECT_DOUBLE_EQ(engine.end(small), engine.begin(small));
  EXPECT_DOUBLE_EQ(engine.end(behind_line), engine.begin(behind_line) + 1) << "the line has no bucket";
}

TEST(FluidEngine, ThreeTasksOnTwoCoresProgressAtTwoThirds) {
  FluidEngine engine;
  const auto cores = engine.add_resource(2);
  const auto alone = engine.add(1, 1, {cores});
  for (int i = 0; i < 2; ++i) engine.add(1, 1, {cores});
  engine.run();
  EXPECT_DOUBLE_EQ(engine.end(alone), 1.5);
}

TEST(FluidEngine, LaterActivitiesWaitForAllEarlierOnes) {
  FluidEngine engine;
  const auto a = engine.add_delay(1), b = engine.add_delay(3), c = engine.add_delay(2);
  engine.order(a, c);
  engine.order(b, c);
  engine.run();
  EXPECT_DOUBLE_EQ(engine.begin(c), 3);
  EXPECT_DOUBLE_EQ(engine.finish(), 5);
}

TEST(FluidEngine, StopsWhereItsLimitIsPassed) {
  for (const double limit : {9.0, 15.0, 16.0}) {
    FluidEngine engine;
    const auto first = engine.add_delay(4), second = engine.add_delay(6), third = engine.add_delay(5);
    engine.order(first, second);
    engine.order(second, third);
    engine.run(limit);
    EXPECT_DOUBLE_EQ(engine.finish(), 15);
    EXPECT_EQ(engine.end(first) < 0, limit < 15) << "what must come after it is known before it begins";
  }
}

/// Activities in random order over few resources, all but one of which are buckets.
FluidEngine random_activities(std::uint64_t seed) {
  std::mt19937_64 random(seed);
  const auto between = [&](double least, double most) {
    return std::uniform_real_distribution(least, most)(random);
  };
  FluidEngine engine;
  std::vector<FluidEngine::Resource> resources;
  for (int i = 0; i < 4; ++i)
    resources.push_back(engine.add_resource(between(0.2, 2), i == 0 ? 0 : between(0, 3)));
  std::vector<FluidEngine::Activity> activities;
  for (int i = 0; i < 40; ++i) {
    const auto one = static_cast<std::size_t>(random() % 4);
    std::vector<FluidEngine::Resource> uses;
    if (random() % 3 > 0) uses = {resources[one], resources[(one + 1) % 4]};
    activities.push_back(engine.add(between(0, 2), between(0.3, 2), uses));
    for (int edge = 0; edge < 2 && i > 0; ++edge)
      engine.order(activities[static_cast<std::size_t>(random() % static_cast<std::uint64_t>(i))],
                   activities.back());
  }
  return engine;
}

TEST(FluidEngine, ALimitChangesNothingThatEndsBelowIt) {
  for (std::uint64_t seed = 0; seed < 500; ++seed) {
    FluidEngine whole = random_activities(seed);
    whole.run();
    for (const double share : {0.3, 0.9, 0.999, 1.0, 1.001, 2.0}) {
      FluidEngine limited = random_activities(seed);
      limited.run(share * whole.finish());
      if (share < 1) {
        EXPECT_GT(limited.finish(), share * whole.finish()) << "seed " << seed;
        EXPECT_LE(limited.finish(), whole.finish() * (1 + 1e-9)) << "seed " << seed << ": no more is certain";
      } else {
        EXPECT_EQ(limited.finish(), whole.finish()) << "seed " << seed << " " << share;
      }
    }
  }
}

TEST(FluidEngine, ACycleIsAnErrorAndNotAHang) {
  FluidEngine engine;
  const auto a = engine.add_delay(1), b = engine.add_delay(1);
  engine.order(a, b);
  engine.order(b, a);
  EXPECT_THROW(engine.run(), Error);
}

}  // namespace
}  // namespace tombolo::planner
