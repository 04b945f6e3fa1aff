#include "trainer/measure.h"

#include <gtest/gtest.h>

#include "base/error.h"

namespace tombolo::trainer {
namespace {

planner::Model small_model() {
  planner::Model model;
  model.layers = 2;
  model.hidden = 64;
  model.heads = 2;
  model.context = 64;
  model.vocabulary = 256;
  return model;
}

TEST(Measure, PredictsWithinAFactorHowLongALayerTakes) {
  const planner::Model model = small_model();
  const TimePoint begin = Clock::steady().now();
  const double rate = measure_layer_flops_per_second(model, 4, std::chrono::milliseconds(50));
  const double whole = to_seconds(Clock::steady().now() - begin);
  const double pass = 3 * 4 * model.layer_forward_flops() / rate;
  EXPECT_GT(pass, 1e-6) << "faster than any processor";
  // Half of at least five passes took the median or longer.
  EXPECT_LT(3 * pass, whole);
}

TEST(Measure, RefusesAModelThatCannotBe) {
  planner::Model model = small_model();
  model.heads = 3;
  EXPECT_THROW(measure_layer_flops_per_second(model, 1, std::chrono::milliseconds(1)), Error);
}

}  // namespace
}  // namespace tombolo::trainer
