// A block by itself. That its gradients are right in a whole model: cpu_stage_test.cpp.
#include "trainer/cpu/layer.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <random>
#include <utility>
#include <vector>

#include "base/randomized_test.h"
#include "compute/instruction_set.h"

namespace tombolo::trainer::cpu {
namespace {

constexpr AttentionShape kBlockShape{2, 37, 2, 6};  // its context is more than one block of queries

Shape three_layers() {
  Shape model;
  model.context = static_cast<int>(kBlockShape.context);
  model.vocabulary = model.padded_vocabulary = 16;
  model.layers = 3;
  model.heads = static_cast<int>(kBlockShape.heads);
  model.width = static_cast<int>(kBlockShape.width());
  return model;
}

/// A block's activations, all of which are its own.
LayerActivations activations_in(Carver& carver) {
  constexpr auto kNone = planner::Recompute::kNone;
  return {carver, kBlockShape, kNone, LayerActivations::shared(carver, kBlockShape, kNone)};
}
LayerScratch scratch_in(Carver& carver) {
  return {carver, kBlockShape};
}

/// Memory of the size that `pieces` takes.
template <typename Pieces>
Arena arena_for(const Pieces& pieces) {
  Carver counter(nullptr);
  pieces(counter);
  return {counter.used(), "a test"};
}

/// The second layer of three, so that its tensors are neither the first of the arena nor the last.
class Block : public testing::Test {
 protected:
  Block() {
    random_.seed(test_seed());
    values_ = normal(layout_.size(), 0.3F);
    in_ = normal(tokens() * kBlockShape.width(), 1);
  }

  static constexpr std::size_t tokens() { return kBlockShape.rows * kBlockShape.context; }
  std::vector<float> normal(std::size_t count, float deviation) {
    std::normal_distribution<float> distribution(0, deviation);
    std::vector<float> values(count);
    for (float& value : values) value = distribution(random_);
    return values;
  }
  LayerTensors tensors_of(std::vector<float>& arena) const { return {arena.data(), layout_, 1}; }

  std::vector<float> forward(const std::vector<float>& in) {
    layer_forward(kept_, in.data(), tensors_of(values_), kBlockShape, kernels_, &compute::multiply);
    return {kept_.out, kept_.out + in.size()};
  }
  /// Turns the gradient by the output into that by the input; adds to `gradients`, an arena.
  void backward(std::vector<float>& gradient, std::vector<float>& gradients) {
    layer_backward(gradient.data(), tensors_of(gradients), kept_, in_.data(), tensors_of(values_), pieces_,
                   kBlockShape, kernels_, &compute::multiply);
  }
  /// How `output_gradient` . output changes along a direction in which `moved` moves what it depends on.
  template <typename Move>
  double slope(const std::vector<float>& output_gradient, const Move& moved) {
    constexpr double kStep = 1e-2;
    const double above = dot(output_gradient, moved(static_cast<float>(kStep)));
    const double below = dot(output_gradient, moved(static_cast<float>(-kStep)));
    return (above - below) / (2 * kStep);
  }
  static double dot(const std::vector<float>& left, const std::vector<float>& right) {
    double sum = 0;
    for (std::size_t i = 0; i < left.size(); ++i)
      sum += static_cast<double>(left[i]) * static_cast<double>(right[i]);
    return sum;
  }

  std::mt19937 random_;
  const StageParameters layout_{three_layers(), 0, 3};
  const Kernels& kernels_ = kernels(compute::instruction_set());
  std::vector<float> values_, in_;
  const Arena activations_ = arena_for(activations_in), scratch_ = arena_for(scratch_in);
  Carver activation_carver_{activations_.data()}, scratch_carver_{scratch_.data()};
  const LayerActivations kept_ = activations_in(activation_carver_);
  const LayerScratch pieces_{scratch_carver_, kBlockShape};
};

TEST_F(Block, WhoseProductsAreZeroPassesItsInputOn) {
  // Only the two projections reach the residual stream.
  for (const Tensor tensor : {Tensor::kAttentionProjectionWeight, Tensor::kAttentionProjectionBias,
                              Tensor::kMlpProjectionWeight, Tensor::kMlpProjectionBias}) {
    const Slice& slice = layout_.find(tensor, 1);
    std::fill_n(values_.begin() + static_cast<std::ptrdiff_t>(slice.offset), slice.elements, 0.0F);
  }
  EXPECT_EQ(forward(in_), in_);
}

TEST_F(Block, ReadsAndChangesNoOtherLayersTensors) {
  const auto expected = forward(in_);
  const std::size_t begin = layout_.layer_begin(1), end = layout_.layer_begin(2);
  for (std::size_t i = 0; i < values_.size(); ++i)
    if (i < begin || i >= end) values_[i] = NAN;
  EXPECT_EQ(forward(in_), expected);
  std::vector<float> gradients(values_.size(), 0.0F), gradient = in_;
  backward(gradient, gradients);
  for (std::size_t i = 0; i < gradients.size(); ++i)
    ASSERT_TRUE((begin <= i && i < end) || gradients[i] == 0.0F) << i;
}

TEST_F(Block, TurnsTheGradientByItsOutputIntoThatByItsInput) {
  const auto output_gradient = normal(in_.size(), 1), direction = normal(in_.size(), 0.1F);
  const double measured = slope(output_gradient, [&](float step) {
    std::vector<float> moved = in_;
    for (std::size_t i = 0; i < moved.size(); ++i) moved[i] += step * direction[i];
    return forward(moved);
  });
  forward(in_);
  std::vector<float> gradients(values_.size(), 0.0F), gradient = output_gradient;
  backward(gradient, gradients);
  const double expected = dot(gradient, direction);
  EXPECT_NEAR(measured, expected, 0.02 * std::abs(expected) + 0.05);
}

TEST_F(Block, AddsToTheGradientsOfItsTensors) {
  const auto output_gradient = normal(in_.size(), 1);
  forward(in_);
  std::vector<float> once(values_.size(), 0.0F), gradient = output_gradient;
  backward(gradient, once);
  std::vector<float> twice = once;
  gradient = output_gradient;
  backward(gradient, twice);
  for (const Slice& slice : layout_.slices()) {
    if (slice.layer != 1) continue;
    double largest = 0;
    for (std::size_t i = slice.offset; i < slice.offset + slice.elements; ++i) {
      largest = std::max(largest, std::abs(static_cast<double>(once[i])));
      ASSERT_NEAR(twice[i], 2 * once[i], 1e-4 * std::abs(once[i]) + 1e-4) << tensor_info(slice.tensor).name;
    }
    EXPECT_GT(largest, 0) << tensor_info(slice.tensor).name << " has no gradient";
  }
}

TEST(LayerPieces, DoNotOverlap) {
  const Arena memory = arena_for(activations_in);
  Carver carver(memory.data());
  const LayerActivations kept = activations_in(carver);
  EXPECT_EQ(carver.used(), memory.all().size());
  const std::size_t tokens = kBlockShape.rows * kBlockShape.context, narrow = tokens * kBlockShape.width();
  const std::pair<const float*, std::size_t> pieces[] = {
      {kept.normal1, narrow},  {kept.mean1, tokens},    {kept.inverse1, tokens},
      {kept.qkv, 3 * narrow},  {kept.attended, narrow}, {kept.probabilities, kBlockShape.probabilities()},
      {kept.middle, narrow},   {kept.normal2, narrow},  {kept.mean2, tokens},
      {kept.inverse2, tokens}, {kept.mlp, 4 * narrow},  {kept.activated, 4 * narrow},
      {kept.out, narrow}};
  for (const auto& [first, size] : pieces) {
    EXPECT_GE(first, memory.data());
    EXPECT_LE(first + size, memory.data() + memory.all().size());
    for (const auto& [other, ignored] : pieces) EXPECT_TRUE(other <= first || other >= first + size);
  }
}

}  // namespace
}  // namespace tombolo::trainer::cpu
