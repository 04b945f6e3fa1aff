#include "trainer/pipeline/divergence.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <vector>

#include "trainer/cpu/cpu_stage.h"
#include "trainer/model/initial_values.h"

namespace tombolo::trainer {
namespace {

class Divergences : public testing::Test {
 protected:
  Divergences() {
    StageOptions options;
    options.shape.context = 8;
    options.shape.vocabulary = options.shape.padded_vocabulary = 16;
    options.shape.layers = options.layers = 3;
    options.shape.heads = 2;
    options.shape.width = 8;
    stage_ = make_cpu_stage(options);
    initialize(options.shape, 1, stage_->layout(), stage_->parameters());
  }
  float& of(std::span<float> arena, Tensor tensor, int layer, std::size_t at) {
    return arena[stage_->layout().find(tensor, layer).offset + at];
  }
  std::unique_ptr<CpuStage> stage_;
};

TEST_F(Divergences, NothingIsFoundWhereAllIsFinite) {
  EXPECT_FALSE(first_not_finite(*stage_));
}

TEST_F(Divergences, ParametersComeBeforeGradientsAndEarlierOnesFirst) {
  of(stage_->gradients(), Tensor::kQkvBias, 2, 0) = std::numeric_limits<float>::infinity();
  of(stage_->parameters(), Tensor::kMlpWeight, 2, 3) = std::numeric_limits<float>::quiet_NaN();
  of(stage_->parameters(), Tensor::kNorm2Bias, 1, 3) = std::numeric_limits<float>::quiet_NaN();
  of(stage_->parameters(), Tensor::kNorm2Bias, 1, 5) = -std::numeric_limits<float>::infinity();
  EXPECT_EQ(first_not_finite(*stage_)->text, "value of layer 1's ln2b: 2 of 8 values are not finite");
}

TEST_F(Divergences, AmongGradientsTheOneThatBackwardMadeFirst) {
  of(stage_->gradients(), Tensor::kQkvBias, 0, 0) = std::numeric_limits<float>::infinity();
  of(stage_->gradients(), Tensor::kQkvBias, 2, 0) = std::numeric_limits<float>::infinity();
  EXPECT_EQ(first_not_finite(*stage_)->text, "gradient of layer 2's qkvb: 1 of 24 values are not finite");
}

class DivergingPasses : public Divergences {
 protected:
  /// A pass both ways; returns the loss.
  double pass() {
    std::vector<std::int32_t> tokens(8), targets(8);
    for (int at = 0; at < 8; ++at) {
      tokens[static_cast<std::size_t>(at)] = at;
      targets[static_cast<std::size_t>(at)] = at + 1;
    }
    stage_->clear_gradients();
    stage_->forward(0, tokens, targets, [] {});
    const double loss = stage_->take_loss_sum();
    stage_->backward(
        0, tokens, [] {}, [](std::size_t) {});
    return loss;
  }
  /// Of the keys alone, whose only way to the loss is through the scores of attention.
  void set_key_bias(int layer, float value) {
    for (std::size_t at = 8; at < 16; ++at) of(stage_->parameters(), Tensor::kQkvBias, layer, at) = value;
  }
};

TEST_F(DivergingPasses, AKeyThatIsNoNumberShowsInTheLossAndIsNamed) {
  ASSERT_TRUE(std::isfinite(pass()));
  set_key_bias(1, std::numeric_limits<float>::quiet_NaN());
  EXPECT_FALSE(std::isfinite(pass()));
  EXPECT_EQ(first_not_finite(*stage_)->text, "value of layer 1's qkvb: 8 of 24 values are not finite");
}

TEST_F(DivergingPasses, ScoresThatOverflowShowInTheLossAndInAGradient) {
  // Each is finite, but not what both are multiplied to.
  set_key_bias(1, 1e30F);
  for (std::size_t at = 0; at < 8; ++at) of(stage_->parameters(), Tensor::kQkvBias, 1, at) = 1e30F;
  EXPECT_FALSE(std::isfinite(pass()));
  const auto found = first_not_finite(*stage_);
  ASSERT_TRUE(found);
  EXPECT_EQ(found->kind, NotFinite::Kind::kGradient) << found->text;
}

}  // namespace
}  // namespace tombolo::trainer
