#include "collectives/engine/task_queue.h"

#include <gtest/gtest.h>

#include <vector>

namespace tombolo::collectives {
namespace {

/// Carries out tasks that take as many turns as their number says.
struct Turns {
  void start(int turns) {
    started.push_back(turns);
    left = turns;
  }
  bool progress() {
    if (left == 0) return false;
    --left;
    return true;
  }
  bool finished() const { return left == 0; }
  void clear() { left = 0; }
  std::vector<int> started;
  int left = 0;
};

TEST(TaskQueue, CarriesOutItsTasksInOrder) {
  Turns runner;
  TaskQueue<Turns, int> queue(runner);
  EXPECT_TRUE(queue.idle());
  EXPECT_FALSE(queue.progress());
  EXPECT_EQ(queue.push(2), 1U);
  EXPECT_EQ(queue.push(0), 2U);  // has nothing to do, but waits for its turn
  EXPECT_EQ(queue.push(1), 3U);
  EXPECT_EQ(runner.started, std::vector{2});
  EXPECT_TRUE(queue.progress());
  EXPECT_FALSE(queue.done(1));
  EXPECT_TRUE(queue.progress());  // ends the first, and with it the second
  EXPECT_TRUE(queue.done(2));
  EXPECT_FALSE(queue.done(3));
  EXPECT_FALSE(queue.idle());
  EXPECT_TRUE(queue.progress());
  EXPECT_TRUE(queue.idle());
  EXPECT_EQ(runner.started, (std::vector{2, 0, 1}));
}

TEST(TaskQueue, WhatIsClearedIsNeverDone) {
  Turns runner;
  TaskQueue<Turns, int> queue(runner);
  queue.push(1);
  EXPECT_TRUE(queue.progress());
  const auto dropped = queue.push(3), waiting = queue.push(3);
  queue.clear();
  EXPECT_TRUE(queue.idle());
  EXPECT_FALSE(queue.progress());
  EXPECT_TRUE(queue.done(1));
  EXPECT_FALSE(queue.done(dropped));
  EXPECT_FALSE(queue.done(waiting));
}

}  // namespace
}  // namespace tombolo::collectives
