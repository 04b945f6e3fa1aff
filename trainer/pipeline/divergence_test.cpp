#include "trainer/pipeline/divergence.h"

#include <gtest/gtest.h>

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

}  // namespace
}  // namespace tombolo::trainer
