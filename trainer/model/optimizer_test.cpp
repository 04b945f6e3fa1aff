#include "trainer/model/optimizer.h"

#include <gtest/gtest.h>

#include <cmath>

#include "base/error.h"

namespace tombolo::trainer {
namespace {

TEST(AdamW, TheRateRisesLinearlyAndThenStays) {
  AdamW options;
  options.learning_rate = 8;
  options.warmup = 4;
  EXPECT_DOUBLE_EQ(learning_rate_at(options, 0), 2);
  EXPECT_DOUBLE_EQ(learning_rate_at(options, 2), 6);
  EXPECT_DOUBLE_EQ(learning_rate_at(options, 3), 8);
  EXPECT_DOUBLE_EQ(learning_rate_at(options, 100), 8);
  options.warmup = 0;
  EXPECT_DOUBLE_EQ(learning_rate_at(options, 0), 8);
}

TEST(AdamW, ACosineFallsFromTheRateToTheSmallestOne) {
  AdamW options;
  options.learning_rate = 8;
  options.smallest_rate = 2;
  options.warmup = 4;
  options.schedule = RateSchedule::kCosine;
  options.steps = 24;
  EXPECT_DOUBLE_EQ(learning_rate_at(options, 0), 2);
  EXPECT_DOUBLE_EQ(learning_rate_at(options, 3), 8);
  EXPECT_DOUBLE_EQ(learning_rate_at(options, 4), 8);
  EXPECT_DOUBLE_EQ(learning_rate_at(options, 14), 5);  // half way
  EXPECT_DOUBLE_EQ(learning_rate_at(options, 9), 5 + 3 * std::sqrt(0.5));
  EXPECT_DOUBLE_EQ(learning_rate_at(options, 24), 2);
  EXPECT_DOUBLE_EQ(learning_rate_at(options, 1000), 2);
  for (int step = 4; step < 24; ++step)
    EXPECT_LT(learning_rate_at(options, step + 1), learning_rate_at(options, step));
  options.steps = 3;  // over before the warm-up is
  EXPECT_DOUBLE_EQ(learning_rate_at(options, 2), 6);
  EXPECT_DOUBLE_EQ(learning_rate_at(options, 4), 2);
}

TEST(AdamW, GradientsAreScaledOnlyWhereTheirNormExceedsTheClip) {
  AdamW options;
  options.clip = 2;
  EXPECT_EQ(adamw_step(options, 0, 1.5).gradient_scale, 1.0F);
  EXPECT_NEAR(adamw_step(options, 0, 8).gradient_scale, 0.25F, 1e-6);
  options.clip = 0;
  EXPECT_EQ(adamw_step(options, 0, 8).gradient_scale, 1.0F);
}

TEST(AdamW, BiasCorrectionIsThatOfTheStepsMade) {
  AdamW options;
  options.learning_rate = 1;
  options.weight_decay = 0.25;
  const AdamWStep step = adamw_step(options, 1, 1);
  EXPECT_NEAR(step.rate, 1 / (1 - 0.81), 1e-5);
  EXPECT_NEAR(step.root_scale, 1 / std::sqrt(1 - 0.9025), 1e-5);
  EXPECT_EQ(step.decay, 0.75F);
}

TEST(AdamW, NumbersOutOfRangeAreRefused) {
  for (auto spoil :
       {+[](AdamW& options) { options.learning_rate = -1; },
        +[](AdamW& options) { options.weight_decay = NAN; }, +[](AdamW& options) { options.clip = -2; },
        +[](AdamW& options) { options.warmup = -1; }, +[](AdamW& options) { options.smallest_rate = -1; },
        +[](AdamW& options) { options.smallest_rate = 2 * options.learning_rate; }}) {
    AdamW options;
    options.check();
    spoil(options);
    EXPECT_THROW(options.check(), Error);
  }
}

}  // namespace
}  // namespace tombolo::trainer
