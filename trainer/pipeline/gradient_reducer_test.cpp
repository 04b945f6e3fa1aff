#include "trainer/pipeline/gradient_reducer.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <condition_variable>
#include <memory>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

#include "collectives/testing/test_support.h"
#include "trainer/model/stage_compute.h"
#include "trainer/pipeline/engine_gradient_sum.h"

namespace tombolo::trainer {
namespace {

using collectives::Communicator;

Shape two_layers() {
  Shape shape;
  shape.context = 4;
  shape.vocabulary = shape.padded_vocabulary = 8;
  shape.layers = 2;
  shape.heads = 1;
  shape.width = 4;
  return shape;
}

/// A stage with gradients alone, all of one value.
class GradientsOnly final : public StageCompute {
 public:
  GradientsOnly(int first_layer, int layers, float value)
      : layout_(two_layers(), first_layer, layers), gradients_(layout_.size(), value) {}

  const StageParameters& layout() const noexcept override { return layout_; }
  std::span<float> gradients() noexcept { return gradients_; }
  std::span<float> gradients_to_host(const Bucket& bucket) override {
    return gradients().subspan(bucket.begin, bucket.end - bucket.begin);
  }
  void gradients_from_host(const Bucket& /*bucket*/) override {}

  StageMemory memory() const noexcept override { return {}; }
  std::string describe() const override { return "gradients"; }
  void read_state(StageState, std::size_t, std::span<float>) const override {}
  void read_gradients(std::size_t, std::span<float>) const override {}
  void write_state(StageState, std::size_t, std::span<const float>) override {}
  std::span<std::byte> input(int) noexcept override { return {}; }
  std::span<const std::byte> output(int) const noexcept override { return {}; }
  std::span<std::byte> boundary_gradient(int) noexcept override { return {}; }
  void forward(int, std::span<const std::int32_t>, std::span<const std::int32_t>, const Progress&) override {}
  double take_loss_sum() override { return 0; }
  void backward(int, std::span<const std::int32_t>, const Progress&, const GradientsFinal&) override {}
  std::span<const float> scores(int, int, int) override { return {}; }
  void clear_gradients() override {}
  double gradient_square_sum() const override { return 0; }
  void update(const AdamWStep&) override {}

 private:
  StageParameters layout_;
  std::vector<float> gradients_;
};

TEST(GradientReducer, SumsGradientsAndSumsOverTheReplicasInEveryStep) {
  collectives::test::expect_fine(collectives::test::run_ranks("AAA", [](Communicator& world) {
    Timeline timeline(Clock::steady().now());
    GradientsOnly stage(0, 2, static_cast<float>(world.rank() + 1));
    GradientReducer reducer(std::make_unique<EngineGradientSum>(&world, nullptr, stage, timeline), &world,
                            stage.layout(), 1, timeline);
    double expected = 1 + 2 + 3;
    for (int step = 0; step < 3; ++step) {
      reducer.gradients_final(stage.layout().layer_begin(1));
      reducer.gradients_final(stage.layout().layer_begin(0));
      reducer.gradients_final(0);
      std::array<double, 2> sums{world.rank() == 0 ? 1.0 : 0.0, 10.0};
      reducer.finish(sums);
      EXPECT_EQ(sums, (std::array<double, 2>{1.0, 30.0}));
      EXPECT_TRUE(std::ranges::all_of(stage.gradients(), [&](float value) { return value == expected; }))
          << "step " << step;
      expected *= 3;  // the gradients stay in the arena
    }
  }));
}

TEST(GradientReducer, AddsTheGradientsOfBothCopiesOfTheEmbedding) {
  collectives::test::expect_fine(collectives::test::run_ranks("AA", [](Communicator& ends) {
    Timeline timeline(Clock::steady().now());
    GradientsOnly stage(ends.rank(), 1, ends.rank() == 0 ? 1.0F : 4.0F);
    GradientReducer reducer(std::make_unique<EngineGradientSum>(nullptr, &ends, stage, timeline), nullptr,
                            stage.layout(), 1, timeline);
    reducer.gradients_final(0);
    std::array<double, 1> sums{0.5};
    reducer.finish(sums);
    EXPECT_EQ(sums[0], 0.5) << "there is one replica";
    for (const Slice& slice : stage.layout().slices()) {
      const float own = ends.rank() == 0 ? 1.0F : 4.0F;
      const float expected = slice.tensor == Tensor::kTokenEmbedding ? 5.0F : own;
      EXPECT_EQ(stage.gradients()[slice.offset], expected) << tensor_info(slice.tensor).name;
    }
  }));
}

TEST(GradientReducer, DoesNothingOnOneRank) {
  Timeline timeline(Clock::steady().now());
  GradientsOnly stage(0, 2, 7);
  GradientReducer reducer(nullptr, nullptr, stage.layout(), 1, timeline);
  std::array<double, 1> sums{3};
  reducer.finish(sums);
  EXPECT_EQ(sums[0], 3);
  EXPECT_EQ(stage.gradients()[0], 7);
}

// Each rank waits for the other in a step that none of them ends.
TEST(GradientReducer, CanBeDestroyedInTheMiddleOfAStep) {
  collectives::test::run_ranks("AA", [](Communicator& world) {
    Timeline timeline(Clock::steady().now());
    GradientsOnly stage(0, 2, 1);
    GradientReducer reducer(std::make_unique<EngineGradientSum>(&world, nullptr, stage, timeline), &world,
                            stage.layout(), 1, timeline);
    if (world.rank() == 0) reducer.gradients_final(0);
  });
}

/// Waits in its first bucket until it is aborted.
class EndlessSum final : public GradientSum {
 public:
  void start(const Bucket& /*bucket*/) override {
    std::unique_lock lock(mutex_);
    started_ = true;
    changed_.notify_all();
    changed_.wait(lock, [&] { return !reason_.empty(); });
    fail(Cause::kAborted, "{}", reason_);
  }
  void finish() override {}
  void abort(const std::string& reason) noexcept override {
    const std::scoped_lock lock(mutex_);
    reason_ = reason;
    changed_.notify_all();
  }
  void wait_until_started() {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [&] { return started_; });
  }

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  bool started_ = false;
  std::string reason_;
};

TEST(GradientReducer, AbortsTheSumThatIsUnderWayWhereItIsDestroyed) {
  Timeline timeline(Clock::steady().now());
  const GradientsOnly stage(0, 2, 1);
  auto sum = std::make_unique<EndlessSum>();
  EndlessSum& endless = *sum;
  GradientReducer reducer(std::move(sum), nullptr, stage.layout(), 1, timeline);
  reducer.gradients_final(0);
  endless.wait_until_started();
}

}  // namespace
}  // namespace tombolo::trainer
