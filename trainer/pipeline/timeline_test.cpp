#include "trainer/pipeline/timeline.h"

#include <gtest/gtest.h>

#include <thread>

namespace tombolo::trainer {
namespace {

/// Keeps this thread busy until it has used this much processor time.
void run_for(double seconds) {
  const double until = thread_processor_seconds() + seconds;
  while (thread_processor_seconds() < until) {
  }
}

TEST(Timeline, TellsWhatRanInPassesFromWhatRanBesideThem) {
  Timeline timeline(Clock::steady().now());
  timeline.keep_steps();
  for (int step = 0; step < 2; ++step) {
    timeline.set_step(step);
    {
      const Timed timed(timeline, "forward", Activity::kForward, 0);
      run_for(0.1);
    }
    {
      const Timed timed(timeline, "wait for gradients", Activity::kWait);
      std::thread([] { run_for(0.03); }).join();
    }
    timeline.end_step();
  }
  ASSERT_EQ(timeline.steps().size(), 2u);
  for (const StepSeconds& step : timeline.steps()) {
    const double ran = step.processor[static_cast<std::size_t>(Activity::kForward)];
    EXPECT_GE(ran, 0.1);
    EXPECT_GE(step.elapsed[static_cast<std::size_t>(Activity::kForward)], ran - 1e-3);
    EXPECT_GE(step.sending, 0.03) << "the other thread's";
    EXPECT_LT(step.sending, 0.1) << "not the pass too";
    EXPECT_EQ(step.processor[static_cast<std::size_t>(Activity::kBackward)], 0);
  }
}

}  // namespace
}  // namespace tombolo::trainer
