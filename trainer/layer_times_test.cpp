#include "trainer/layer_times.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "base/error.h"
#include "planner/memory.h"

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
    EXPECT_GT(part->forward, 1e-7);
    EXPECT_GT(part->backward, 1e-7);
    EXPECT_GT(part->update, 1e-8);
  }
  EXPECT_GT(times.embedding.backward, 1e-8);
  // At least 8 passes of 3 layers each were made; half of each part's samples took the median or longer.
  const double pass = times.layer.forward + times.layer.backward;
  EXPECT_LT(8 * 2 * pass / 2, whole);
}

TEST(LayerTimes, AWiderLayerTakesLongerAndALargerVocabularyALongerHead) {
  // Other programs may take the processor away from one of the three: so it has to hold in one of several
  // tries.
  constexpr int kTries = 10;
  double layer = 0, head = 0, update = 0;
  for (int i = 0; i < kTries && !(layer > 2 && head > 3 && update > 3); ++i) {
    const LayerTimes narrow = times_of(timed_shape(64), 2), wide = times_of(timed_shape(256), 2),
                     many = times_of(timed_shape(64, 4096), 2);
    layer = std::min(wide.layer.forward / narrow.layer.forward, wide.layer.backward / narrow.layer.backward);
    head = (many.head.forward + many.head.backward) / (narrow.head.forward + narrow.head.backward);
    update = many.embedding.update / narrow.embedding.update;
  }
  EXPECT_GT(layer, 2);
  EXPECT_GT(head, 3);
  EXPECT_GT(update, 3);
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
