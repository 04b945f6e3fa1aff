#include "trainer/cpu/layer.h"

#include "compute/gemm.h"

namespace tombolo::trainer::cpu {
namespace {

using Multiply = decltype(&compute::multiply);

/// out = in weight^T + bias + residual, the weight being outputs x inputs; the residual may be null.
void linear(Multiply multiply, float* out, const float* in, const float* weight, const float* bias,
            const float* residual, std::size_t tokens, std::size_t inputs, std::size_t outputs) noexcept {
  multiply(out, outputs, {in, inputs}, {weight, inputs, true}, tokens, outputs, inputs,
           {.matrix = residual, .matrix_stride = outputs, .row = bias});
}

/// in_gradient = gradient weight; weight_gradient += gradient^T in.
void linear_backward(Multiply multiply, float* in_gradient, float* weight_gradient, const float* gradient,
                     const float* in, const float* weight, std::size_t tokens, std::size_t inputs,
                     std::size_t outputs) noexcept {
  multiply(weight_gradient, inputs, {gradient, outputs, true}, {in, inputs}, outputs, inputs, tokens,
           {.matrix = weight_gradient, .matrix_stride = inputs});
  multiply(in_gradient, inputs, {gradient, outputs}, {weight, inputs}, tokens, inputs, outputs, {});
}

}  // namespace

LayerTensors::LayerTensors(float* arena, const StageParameters& parameters, int layer) {
  auto at = [&](Tensor tensor) { return arena + parameters.find(tensor, layer).offset; };
  norm1_weight = at(Tensor::kNorm1Weight);
  norm1_bias = at(Tensor::kNorm1Bias);
  qkv_weight = at(Tensor::kQkvWeight);
  qkv_bias = at(Tensor::kQkvBias);
  projection_weight = at(Tensor::kAttentionProjectionWeight);
  projection_bias = at(Tensor::kAttentionProjectionBias);
  norm2_weight = at(Tensor::kNorm2Weight);
  norm2_bias = at(Tensor::kNorm2Bias);
  mlp_weight = at(Tensor::kMlpWeight);
  mlp_bias = at(Tensor::kMlpBias);
  mlp_projection_weight = at(Tensor::kMlpProjectionWeight);
  mlp_projection_bias = at(Tensor::kMlpProjectionBias);
}

void LayerActivations::take_all_but_probabilities_and_out(Carver& carver, const AttentionShape& shape) {
  const std::size_t tokens = shape.rows * shape.context;
  const std::size_t narrow = tokens * shape.width();
  normal1 = carver.take(narrow);
  mean1 = carver.take(tokens);
  inverse1 = carver.take(tokens);
  qkv = carver.take(3 * narrow);
  attended = carver.take(narrow);
  middle = carver.take(narrow);
  normal2 = carver.take(narrow);
  mean2 = carver.take(tokens);
  inverse2 = carver.take(tokens);
  mlp = carver.take(4 * narrow);
  activated = carver.take(4 * narrow);
}

LayerActivations LayerActivations::shared(Carver& carver, const AttentionShape& shape,
                                          planner::Recompute recompute) {
  LayerActivations result;
  if (recompute == planner::Recompute::kFull) result.take_all_but_probabilities_and_out(carver, shape);
  if (recompute != planner::Recompute::kNone) result.probabilities = carver.take(shape.probabilities());
  return result;
}

LayerActivations::LayerActivations(Carver& carver, const AttentionShape& shape, planner::Recompute recompute,
                                   const LayerActivations& shared)
    : LayerActivations(shared) {
  if (recompute != planner::Recompute::kFull) take_all_but_probabilities_and_out(carver, shape);
  if (recompute == planner::Recompute::kNone) probabilities = carver.take(shape.probabilities());
  out = carver.take(shape.rows * shape.context * shape.width());
}

LayerScratch::LayerScratch(Carver& carver, const AttentionShape& shape) {
  const std::size_t narrow_floats = shape.rows * shape.context * shape.width();
  wide = carver.take(4 * narrow_floats);
  narrow = carver.take(narrow_floats);
  scores = carver.take(shape.scratch());
}

void layer_forward(const LayerActivations& kept, const float* in, const LayerTensors& parameters,
                   const AttentionShape& shape, const Kernels& kernels, Multiply multiply) noexcept {
  const std::size_t tokens = shape.rows * shape.context;
  const std::size_t width = shape.width();
  kernels.norm(kept.normal1, kept.mean1, kept.inverse1, in, parameters.norm1_weight, parameters.norm1_bias,
               tokens, width);
  linear(multiply, kept.qkv, kept.normal1, parameters.qkv_weight, parameters.qkv_bias, nullptr, tokens, width,
         3 * width);
  attention(kept.attended, kept.probabilities, kept.qkv, shape, kernels);
  linear(multiply, kept.middle, kept.attended, parameters.projection_weight, parameters.projection_bias, in,
         tokens, width, width);
  kernels.norm(kept.normal2, kept.mean2, kept.inverse2, kept.middle, parameters.norm2_weight,
               parameters.norm2_bias, tokens, width);
  linear(multiply, kept.mlp, kept.normal2, parameters.mlp_weight, parameters.mlp_bias, nullptr, tokens, width,
         4 * width);
  kernels.gelu(kept.activated, kept.mlp, tokens * 4 * width);
  linear(multiply, kept.out, kept.activated, parameters.mlp_projection_weight, parameters.mlp_projection_bias,
         kept.middle, tokens, 4 * width, width);
}

void layer_recompute(const LayerActivations& kept, const float* in, const LayerTensors& parameters,
                     const AttentionShape& shape, const Kernels& kernels, Multiply multiply,
                     planner::Recompute recompute) noexcept {
  switch (recompute) {
    case planner::Recompute::kNone:
      return;
    case planner::Recompute::kSelective:
      return attention(kept.attended, kept.probabilities, kept.qkv, shape, kernels);
    case planner::Recompute::kFull:
      return layer_forward(kept, in, parameters, shape, kernels, multiply);
  }
}

void layer_backward(float* gradient, const LayerTensors& gradients, const LayerActivations& kept,
                    const float* in, const LayerTensors& parameters, const LayerScratch& scratch,
                    const AttentionShape& shape, const Kernels& kernels, Multiply multiply) noexcept {
  const std::size_t tokens = shape.rows * shape.context;
  const std::size_t width = shape.width();
  kernels.sum_rows(gradients.mlp_projection_bias, gradient, tokens, width);
  linear_backward(multiply, scratch.wide, gradients.mlp_projection_weight, gradient, kept.activated,
                  parameters.mlp_projection_weight, tokens, 4 * width, width);
  kernels.gelu_backward(scratch.wide, kept.mlp, gradients.mlp_bias, tokens, 4 * width);
  linear_backward(multiply, scratch.narrow, gradients.mlp_weight, scratch.wide, kept.normal2,
                  parameters.mlp_weight, tokens, width, 4 * width);
  kernels.norm_backward(gradient, gradients.norm2_weight, gradients.norm2_bias, scratch.narrow, kept.middle,
                        kept.mean2, kept.inverse2, parameters.norm2_weight, tokens, width);
  kernels.sum_rows(gradients.projection_bias, gradient, tokens, width);
  linear_backward(multiply, scratch.narrow, gradients.projection_weight, gradient, kept.attended,
                  parameters.projection_weight, tokens, width, width);
  float* qkv_gradient = scratch.wide;
  attention_backward(qkv_gradient, scratch.scores, scratch.narrow, kept.qkv, kept.probabilities, shape,
                     kernels);
  kernels.sum_rows(gradients.qkv_bias, qkv_gradient, tokens, 3 * width);
  linear_backward(multiply, scratch.narrow, gradients.qkv_weight, qkv_gradient, kept.normal1,
                  parameters.qkv_weight, tokens, width, 3 * width);
  kernels.norm_backward(gradient, gradients.norm1_weight, gradients.norm1_bias, scratch.narrow, in,
                        kept.mean1, kept.inverse1, parameters.norm1_weight, tokens, width);
}

}  // namespace tombolo::trainer::cpu
