#include "trainer/run/layer_times.h"

#include <gtest/gtest.h>

#include "base/error.h"
#include "planner/cost/memory.h"

namespace tombolo::trainer {
namespace {

Shape timed_shape(int width = 64, int vocabulary = 256) {
  Shape shape;
  shape.context = 64;
  shape.vocabulary = vocabulary;
  shape.padded_vocabulary = padded_vocabulary(vocabulary);
  shape.layers = 2;
  shape.heads = 2;
  shape.width = width;
  return shape;
}

LayerTimes times_of(const Shape& shape, int rows) {
  LayerTimesOptions options;
  options.shape = shape;
  options.rows = rows;
  options.budget = std::chrono::milliseconds(30);
  return time_layers(options);
}

TEST(LayerTimes, EveryPartTakesTimeAndTheWholeNoMoreThanTheClockSaw) {
  const TimePoint begin = Clock::steady().now();
  // A head that takes longer than a layer: its backward pass is what is left without one.
  const LayerTimes times = times_of(timed_shape(64, 4096), 4);
  const double whole = to_seconds(Clock::steady().now() - begin);
  for (const PartTimes* part : {&times.layer, &times.head}) {
    EXPECT_GT(part->forward, 0);
    EXPECT_GT(part->backward, 0);
    EXPECT_GT(part->update, 0);
  }
  EXPECT_GT(times.embedding.backward, 0);
  // At least 8 passes of 3 layers each were made; half of each part's samples took the median or longer.
  const double pass = times.layer.forward + times.layer.backward;
  EXPECT_LT(8 * 2 * pass / 2, whole);
}

// 64 times the multiplications, 16 times the vocabulary: longer on any machine, whatever else it does.
TEST(LayerTimes, AWiderLayerTakesLongerAndALargerVocabularyALongerHead) {
  const LayerTimes narrow = times_of(timed_shape(64), 2), wide = times_of(timed_shape(512), 2),
                   many = times_of(timed_shape(64, 4096), 2);
  EXPECT_GT(wide.layer.forward, narrow.layer.forward);
  EXPECT_GT(wide.layer.backward, narrow.layer.backward);
  EXPECT_GT(many.head.forward, narrow.head.forward);
  EXPECT_GT(many.embedding.update, narrow.embedding.update);
}

TEST(LayerTimes, KeptBytesAreThoseThatThePlannerCounts) {
  const Shape shape = timed_shape();
  planner::Job job;
  job.model = to_planner_model(shape);
  const auto counted = static_cast<double>(planner::layer_activation_bytes(job, 3, 1).until_backward);
  const LayerTimes times = times_of(shape, 3);
  EXPECT_NEAR(static_cast<double>(times.layer.kept_bytes), counted, 0.01 * counted);
  const double tokens = 3.0 * shape.context;
  const double head = 4 * tokens * (shape.width + 2 + shape.vocabulary);
  EXPECT_NEAR(static_cast<double>(times.head.kept_bytes), head, 0.01 * head);
}

TEST(LayerTimes, BeginsWhenAllAreReady) {
  LayerTimesOptions options;
  options.shape = timed_shape();
  options.budget = std::chrono::milliseconds(1);
  int calls = 0;
  options.ready = [&] { ++calls; };
  time_layers(options);
  EXPECT_EQ(calls, 1);
}

TEST(LayerTimes, RefusesAModelThatCannotBe) {
  Shape shape = timed_shape();
  shape.heads = 3;
  EXPECT_THROW(times_of(shape, 1), Error);
  EXPECT_THROW(times_of(timed_shape(), 0), Error);
}

}  // namespace
}  // namespace tombolo::trainer
