#include "planner/fluid.h"

#include <gtest/gtest.h>

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

TEST(FluidEngine, TwoFlowsOnOneResourceHalveEachOther) {
  FluidEngine engine;
  const auto nic = engine.add_resource(10);
  const auto a = engine.add(50, 10, {nic}), b = engine.add(50, 10, {nic});
  engine.run();
  EXPECT_DOUBLE_EQ(engine.end(a), 10);
  EXPECT_DOUBLE_EQ(engine.end(b), 10);
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

TEST(FluidEngine, ACycleIsAnErrorAndNotAHang) {
  FluidEngine engine;
  const auto a = engine.add_delay(1), b = engine.add_delay(1);
  engine.order(a, b);
  engine.order(b, a);
  EXPECT_THROW(engine.run(), Error);
}

}  // namespace
}  // namespace tombolo::planner
