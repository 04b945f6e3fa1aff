#include "trainer/run/layer_times.h"

#include <gtest/gtest.h>

#include <memory>

#include "base/error.h"
#include "planner/cost/memory.h"
#include "trainer/cpu/cpu_stage.h"
#include "trainer/cuda/stage/cuda_stage.h"
#include "trainer/cuda/testing/pretended_device.h"

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
  const LayerTimes times = times_of(timed_shape(64, 4096), 4);
  const double whole = to_seconds(Clock::steady().now() - begin);
  for (const PartTimes* part : {&times.layer, &times.head}) {
    EXPECT_GT(part->forward, 0);
    EXPECT_GT(part->update, 0);
  }
  EXPECT_GT(times.layer.backward, 0);
  EXPECT_GT(times.embedding.backward, 0);
  // What is left of it without a layer is nothing where the layers were held up.
  EXPECT_GE(times.head.backward, 0);
  // At least 4 passes each way were timed, and 2 layers of each; half of these took the median or longer.
  const double pass = times.layer.forward + times.layer.backward;
  EXPECT_LT(4 * 2 * pass / 2, whole);
}

TEST(LayerTimes, AreTakenOnAGpuToo) {
  LayerTimesOptions options;
  options.shape = timed_shape(8);
  options.shape.context = 16;
  options.budget = Duration(0);
  options.make_stage = cuda::cuda_stages([] { return std::make_shared<cuda::PretendedDevice>(); });
  const LayerTimes times = time_layers(options);
  EXPECT_GT(times.layer.forward, 0);
  EXPECT_GT(times.layer.backward, 0);
  // 16 boundaries; 4 statistics of norms, and one of the softmaxes of each of 2 heads, per token. Every piece
  // is a multiple of 256 bytes.
  EXPECT_EQ(times.layer.kept_bytes, 16 * 16 * 8 * sizeof(float) + 5 * 256);
}

/// A stage whose parts take known times, on a clock of its own; now and then a part is held up.
class StageOfKnownTimes final : public StageCompute {
 public:
  explicit StageOfKnownTimes(const Shape& shape) {
    StageOptions options;
    options.shape = shape;
    options.shape.layers = options.layers = kTimedLayers;
    options.in_flight = 2;
    held_ = make_cpu_stage(options);
  }
  FakeClock clock;
  Duration embedding_forward{}, layer_forward{}, head_forward{};
  Duration embedding_backward{}, layer_backward{}, head_backward{}, update_time{};

  const StageParameters& layout() const noexcept override { return held_->layout(); }
  StageMemory memory() const noexcept override { return held_->memory(); }
  std::string describe() const override { return held_->describe(); }
  void read_state(StageState state, std::size_t offset, std::span<float> to) const override {
    held_->read_state(state, offset, to);
  }
  void write_state(StageState state, std::size_t offset, std::span<const float> from) override {
    held_->write_state(state, offset, from);
  }
  void read_gradients(std::size_t offset, std::span<float> to) const override {
    held_->read_gradients(offset, to);
  }
  std::span<float> gradients_to_host(const Bucket& bucket) override {
    return held_->gradients_to_host(bucket);
  }
  void gradients_from_host(const Bucket& bucket) override { held_->gradients_from_host(bucket); }
  std::span<std::byte> input(int micro_batch) noexcept override { return held_->input(micro_batch); }
  std::span<const std::byte> output(int micro_batch) const noexcept override {
    return held_->output(micro_batch);
  }
  std::span<std::byte> boundary_gradient(int micro_batch) noexcept override {
    return held_->boundary_gradient(micro_batch);
  }
  std::span<const float> scores(int micro_batch, int row, int position) override {
    return held_->scores(micro_batch, row, position);
  }
  double take_loss_sum() override { return 0; }
  void forward(int, std::span<const std::int32_t>, std::span<const std::int32_t>,
               const Progress& progress) override {
    take(embedding_forward);
    for (int layer = 0; layer < kTimedLayers; ++layer) {
      take(layer_forward);
      progress();
    }
    take(head_forward);
  }
  void backward(int, std::span<const std::int32_t>, const Progress& progress,
                const GradientsFinal&) override {
    take(head_backward);
    for (int layer = 0; layer < kTimedLayers; ++layer) {
      take(layer_backward);
      progress();
    }
    take(embedding_backward);
  }
  void clear_gradients() override {}
  double gradient_square_sum() const override { return 1; }
  void update(const AdamWStep&) override { take(update_time); }

 private:
  void take(Duration duration) {
    clock.advance(++parts_ % 11 == 0 ? duration + std::chrono::seconds(1) : duration);
  }
  std::unique_ptr<StageCompute> held_;
  int parts_ = 0;
};

TEST(LayerTimes, AreThoseOfTheParts) {
  using std::chrono::milliseconds;
  StageOfKnownTimes stage(timed_shape(32));
  stage.embedding_forward = milliseconds(3);
  stage.layer_forward = milliseconds(20);
  stage.head_forward = milliseconds(7);
  stage.embedding_backward = milliseconds(5);
  stage.layer_backward = milliseconds(41);
  stage.head_backward = milliseconds(11);
  stage.update_time = milliseconds(100);
  LayerTimesOptions options;
  options.shape = timed_shape(32);
  options.budget = std::chrono::minutes(5);
  const LayerTimes times = time_stage(stage, options, stage.clock);
  EXPECT_NEAR(times.layer.forward, 0.020, 1e-9);
  EXPECT_NEAR(times.layer.backward, 0.041, 1e-9);
  EXPECT_NEAR(times.embedding.forward, 0.003, 1e-9);
  EXPECT_NEAR(times.embedding.backward, 0.005, 1e-9);
  EXPECT_NEAR(times.head.forward, 0.007, 1e-9);
  EXPECT_NEAR(times.head.backward, 0.011, 1e-9);
  // The update goes by parameters: what all parts hold together, each layer three times, is the whole.
  const double norm_of_head = 2.0 * 32, parameters = static_cast<double>(stage.layout().size());
  EXPECT_NEAR(3 * times.layer.update + times.embedding.update + 0.1 * norm_of_head / parameters, 0.1, 1e-3);
}

TEST(LayerTimes, TakeNoLongerThanTheirBudgetAndOneStep) {
  StageOfKnownTimes stage(timed_shape(32));
  stage.layer_forward = stage.layer_backward = std::chrono::milliseconds(10);
  LayerTimesOptions options;
  options.shape = timed_shape(32);
  options.budget = std::chrono::seconds(20);
  TimePoint warm;
  options.ready = [&] { warm = stage.clock.now(); };
  time_stage(stage, options, stage.clock);
  // A pass takes 30 ms and is held up a second at most twice; a step has four each way.
  EXPECT_GE(stage.clock.now() - warm, options.budget);
  EXPECT_LT(stage.clock.now() - warm, options.budget + std::chrono::seconds(17));
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
