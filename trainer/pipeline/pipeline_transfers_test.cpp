#include "trainer/pipeline/pipeline_transfers.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <numeric>
#include <string>
#include <vector>

#include "collectives/testing/test_support.h"
#include "planner/model/schedule.h"

namespace tombolo::trainer {
namespace {

using collectives::Communicator;

constexpr std::size_t kFloats = 65536;  // of a message: more than is copied on the way

/// A stage's buffers alone, in rings as a real stage has them.
class BuffersOnly final : public StageCompute {
 public:
  explicit BuffersOnly(int in_flight)
      : inputs_(ring(in_flight + 1)), outputs_(ring(in_flight)), gradients_(ring(kGradientBuffers)) {}

  std::span<std::byte> input(int micro_batch) noexcept override {
    return std::as_writable_bytes(floats_of_input(micro_batch));
  }
  std::span<const std::byte> output(int micro_batch) const noexcept override {
    return std::as_bytes(std::span(outputs_[static_cast<std::size_t>(micro_batch) % outputs_.size()]));
  }
  std::span<std::byte> boundary_gradient(int micro_batch) noexcept override {
    return std::as_writable_bytes(floats_of_gradient(micro_batch));
  }
  std::span<float> floats_of_input(int micro_batch) { return of(inputs_, micro_batch); }
  std::span<float> floats_of_output(int micro_batch) { return of(outputs_, micro_batch); }
  std::span<float> floats_of_gradient(int micro_batch) { return of(gradients_, micro_batch); }

  const StageParameters& layout() const noexcept override { return layout_; }
  std::string describe() const override { return {}; }
  void read_state(StageState, std::size_t, std::span<float>) const override {}
  void read_gradients(std::size_t, std::span<float>) const override {}
  void write_state(StageState, std::size_t, std::span<const float>) override {}
  std::span<float> gradients_to_host(const Bucket&) override { return {}; }
  void gradients_from_host(const Bucket&) override {}
  StageMemory memory() const noexcept override { return {}; }
  void forward(int, std::span<const std::int32_t>, std::span<const std::int32_t>, const Progress&) override {}
  double take_loss_sum() override { return 0; }
  void backward(int, std::span<const std::int32_t>, const Progress&, const GradientsFinal&) override {}
  std::span<const float> scores(int, int, int) override { return {}; }
  void clear_gradients() override {}
  double gradient_square_sum() const override { return 0; }
  void update(const AdamWStep&) override {}

 private:
  using Ring = std::vector<std::vector<float>>;
  static Ring ring(int buffers) {
    return Ring(static_cast<std::size_t>(buffers), std::vector<float>(kFloats, -1.0F));
  }
  static std::span<float> of(Ring& ring, int micro_batch) {
    return ring[static_cast<std::size_t>(micro_batch) % ring.size()];
  }
  static Shape one_layer() {
    Shape shape;
    shape.context = 4;
    shape.vocabulary = shape.padded_vocabulary = 8;
    shape.layers = 1;
    shape.heads = 1;
    shape.width = 4;
    return shape;
  }

  Ring inputs_, outputs_, gradients_;
  StageParameters layout_{one_layer(), 0, 1};
};

void expect_all(std::span<const float> values, float expected, const std::string& what) {
  EXPECT_TRUE(std::ranges::all_of(values, [&](float value) { return value == expected; }))
      << what << " is " << values.front() << ", not " << expected;
}

/// Stages that pass numbers on: an activation grows by 1 in each, and a gradient by 1 in each on its way
/// back. Every buffer is overwritten as soon as that is allowed, so that bytes which were still needed show.
class PassedOn {
 public:
  PassedOn(Communicator* pipeline, int stages, int stage, int micro_batches)
      : stages_(stages),
        stage_(stage),
        in_flight_(planner::micro_batches_in_flight(stage, stages, micro_batches)),
        micro_batches_(micro_batches),
        compute_(in_flight_),
        transfers_(pipeline, ranks_of(stages), compute_, micro_batches, in_flight_, timeline_) {}

  void run_step(int step) {
    step_ = step;
    transfers_.begin_step();
    for (int next_forward = 0, next_backward = 0; next_backward < micro_batches_;) {
      if (next_forward < micro_batches_ && next_forward - next_backward < in_flight_)
        forward(next_forward++);
      else
        backward(next_backward++);
    }
    transfers_.end_step();
  }
  const Timeline& timeline() const { return timeline_; }

 private:
  static std::vector<int> ranks_of(int stages) {
    std::vector<int> ranks(static_cast<std::size_t>(stages));
    std::iota(ranks.begin(), ranks.end(), 0);
    return ranks;
  }
  float number_of(int micro_batch) const { return static_cast<float>(1000 * step_ + 10 * micro_batch); }
  std::string name(const char* what, int micro_batch) const {
    return std::string(what) + " of micro-batch " + std::to_string(micro_batch) + " on stage " +
           std::to_string(stage_);
  }

  void forward(int micro_batch) {
    transfers_.before_forward(micro_batch);
    const float expected = number_of(micro_batch) + static_cast<float>(stage_);
    if (stage_ > 0) expect_all(compute_.floats_of_input(micro_batch), expected, name("input", micro_batch));
    std::ranges::fill(compute_.floats_of_output(micro_batch), expected + 1);
    transfers_.progress();
    transfers_.after_forward(micro_batch);
  }
  void backward(int micro_batch) {
    transfers_.before_backward(micro_batch);
    const auto stages_behind = static_cast<float>(stages_ - 1 - stage_);
    const std::span<float> gradient = compute_.floats_of_gradient(micro_batch);
    if (stage_ + 1 < stages_)
      expect_all(gradient, -number_of(micro_batch) + stages_behind, name("gradient", micro_batch));
    // The input is needed up to here, and by the next stage the output.
    if (stage_ > 0)
      expect_all(compute_.floats_of_input(micro_batch), number_of(micro_batch) + static_cast<float>(stage_),
                 name("kept input", micro_batch));
    std::ranges::fill(gradient, -number_of(micro_batch) + stages_behind + 1);
    transfers_.progress();
    transfers_.after_backward(micro_batch);
  }

  int stages_, stage_, in_flight_, micro_batches_, step_ = 0;
  Timeline timeline_{Clock::steady().now()};
  BuffersOnly compute_;
  PipelineTransfers transfers_;
};

void pass_on(int stages, int micro_batches, int steps) {
  SCOPED_TRACE(std::to_string(stages) + " stages, " + std::to_string(micro_batches) + " micro-batches");
  collectives::test::expect_fine(collectives::test::run_ranks(
      std::string(static_cast<std::size_t>(stages), 'A'), [&](Communicator& world) {
        PassedOn stage(&world, stages, world.rank(), micro_batches);
        for (int step = 0; step < steps; ++step) stage.run_step(step);
        world.barrier();
      }));
}

TEST(PipelineTransfers, CarryEveryActivationAndGradientToItsMicroBatch) {
  pass_on(2, 9, 3);
  pass_on(3, 7, 2);
  pass_on(4, 12, 2);
}

TEST(PipelineTransfers, NeedNotBeAsManyAsThereAreStagesOrBuffers) {
  pass_on(3, 1, 3);
  pass_on(2, 2, 2);
  pass_on(4, 3, 2);
}

TEST(PipelineTransfers, OfOneStageAreNone) {
  PassedOn stage(nullptr, 1, 0, 5);
  for (int step = 0; step < 2; ++step) stage.run_step(step);
  EXPECT_EQ(stage.timeline().seconds(Activity::kWait), 0.0);
}

}  // namespace
}  // namespace tombolo::trainer
