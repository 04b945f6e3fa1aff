#include "trainer/cuda/stage/block.h"

namespace tombolo::trainer::cuda {
namespace {

/// A linear layer of `outputs` x `inputs` weights.
struct Linear {
  Values weight;
  std::size_t inputs, outputs;
};

/// The product of every linear layer's forward pass: out = in weight^T; the caller adds an epilogue.
Product linear(const StageSizes& sizes, const Values& out, const Values& in, const Linear& layer) {
  Product product{};
  product.out = out;
  product.a = in;
  product.b = layer.weight;
  product.b_transposed = true;
  product.m = sizes.tokens;
  product.n = layer.outputs;
  product.k = layer.inputs;
  return product;
}

Product with_bias(Product product, const Values& bias) {
  product.epilogue = Epilogue::kBias;
  product.vector = bias;
  return product;
}

/// weight_gradient += gradient^T in; bias_gradient += sum over tokens of gradient.
void add_weight_gradients(Device& device, const StageSizes& sizes, float* weight_gradient,
                          float* bias_gradient, const Values& gradient, const Values& in, const Linear& layer,
                          const ScratchBuffers& scratch) {
  Product product{};
  product.out = fp32(weight_gradient);
  product.a = gradient;
  product.a_transposed = true;
  product.b = in;
  product.accumulate = true;
  product.m = layer.outputs;
  product.n = layer.inputs;
  product.k = sizes.tokens;
  product.epilogue = Epilogue::kSumOfA;
  product.vector = fp32(scratch.bias);
  device.run(Stream::kCompute, product);
  device.run(Stream::kCompute, Add{bias_gradient, scratch.bias, layer.outputs});
}

/// The product that gives the gradient by a linear layer's input: gradient weight.
Product input_gradient(const StageSizes& sizes, const Values& out, const Values& gradient,
                       const Linear& layer) {
  Product product{};
  product.out = out;
  product.a = gradient;
  product.b = layer.weight;
  product.m = sizes.tokens;
  product.n = layer.inputs;
  product.k = layer.outputs;
  return product;
}

/// All but the MLP's second product.
void forward_until_activated(Device& device, const StageSizes& sizes, const BlockInput& input,
                             const LayerBuffers& kept, const BlockParameters& p,
                             const ScratchBuffers& scratch) {
  const std::size_t width = sizes.width;
  Norm norm1{};
  norm1.out = kept.normal1;
  norm1.sum = input.sum;
  norm1.x = input.residual.at != nullptr ? input.added : input.sum;
  norm1.residual = input.residual;
  norm1.weight = p.norm1_weight;
  norm1.bias = p.norm1_bias;
  norm1.mean = kept.mean1;
  norm1.inverse = kept.inverse1;
  norm1.rows = sizes.tokens;
  norm1.width = width;
  device.run(Stream::kCompute, norm1);

  device.run(Stream::kCompute,
             with_bias(linear(sizes, kept.qkv, kept.normal1, {p.qkv_weight, width, 3 * width}), p.qkv_bias));
  Attention attention{};
  attention.out = kept.attended;
  attention.qkv = kept.qkv;
  attention.log_sum = kept.log_sum;
  attention.rows = sizes.rows;
  attention.context = sizes.context;
  attention.heads = sizes.heads;
  attention.head_size = sizes.head_size;
  device.run(Stream::kCompute, attention);
  device.run(Stream::kCompute,
             with_bias(linear(sizes, scratch.projected, kept.attended, {p.projection_weight, width, width}),
                       p.projection_bias));

  Norm norm2{};
  norm2.out = kept.normal2;
  norm2.sum = kept.middle;
  norm2.x = scratch.projected;
  norm2.residual = input.sum;
  norm2.weight = p.norm2_weight;
  norm2.bias = p.norm2_bias;
  norm2.mean = kept.mean2;
  norm2.inverse = kept.inverse2;
  norm2.rows = sizes.tokens;
  norm2.width = width;
  device.run(Stream::kCompute, norm2);

  Product mlp = linear(sizes, kept.activated, kept.normal2, {p.mlp_weight, width, 4 * width});
  mlp.epilogue = Epilogue::kBiasGelu;
  mlp.vector = p.mlp_bias;
  mlp.auxiliary = kept.mlp;
  device.run(Stream::kCompute, mlp);
}

Product mlp_projection(const StageSizes& sizes, const Values& out, const LayerBuffers& kept,
                       const BlockParameters& p) {
  return with_bias(
      linear(sizes, out, kept.activated, {p.mlp_projection_weight, 4 * sizes.width, sizes.width}),
      p.mlp_projection_bias);
}

/// x_gradient += ...
void norm_backward(Device& device, const StageSizes& sizes, const Values& x_gradient, const Values& gradient,
                   const Values& x, const Values& weight, float* weight_gradient, float* bias_gradient,
                   const float* mean, const float* inverse, const ScratchBuffers& scratch) {
  NormBackward norm{};
  norm.x_gradient = x_gradient;
  norm.gradient = gradient;
  norm.x = x;
  norm.weight = weight;
  norm.weight_gradient = weight_gradient;
  norm.bias_gradient = bias_gradient;
  norm.mean = mean;
  norm.inverse = inverse;
  norm.scratch = scratch.norm;
  norm.rows = sizes.tokens;
  norm.width = sizes.width;
  device.run(Stream::kCompute, norm);
}

}  // namespace

BlockParameters::BlockParameters(Values arena, const StageParameters& layout, int layer) {
  const auto at = [&](Tensor tensor) { return from_element(arena, layout.find(tensor, layer).offset); };
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

BlockGradients::BlockGradients(float* arena, const StageParameters& layout, int layer) {
  const auto at = [&](Tensor tensor) { return arena + layout.find(tensor, layer).offset; };
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

void block_forward(Device& device, const StageSizes& sizes, const BlockInput& input, const LayerBuffers& kept,
                   const BlockParameters& parameters, const ScratchBuffers& scratch, BlockEnd end) {
  forward_until_activated(device, sizes, input, kept, parameters, scratch);
  const Values& out = end == BlockEnd::kBlock ? kept.out : scratch.projected;
  Product product = mlp_projection(sizes, out, kept, parameters);
  if (end == BlockEnd::kBlock) {
    device.copy(Stream::kCompute, out.at, kept.middle.at, sizes.boundary_bytes());
    product.accumulate = true;
  }
  device.run(Stream::kCompute, product);
}

void block_recompute(Device& device, const StageSizes& sizes, const Values& in, const LayerBuffers& kept,
                     const BlockParameters& parameters, const ScratchBuffers& scratch) {
  forward_until_activated(device, sizes, {in, {}, {}}, kept, parameters, scratch);
}

void block_backward(Device& device, const StageSizes& sizes, const Values& gradient, const Values& in,
                    const LayerBuffers& kept, const BlockParameters& p, const BlockGradients& g,
                    const ScratchBuffers& scratch) {
  const std::size_t width = sizes.width;
  const Linear mlp_projection_layer{p.mlp_projection_weight, 4 * width, width};
  add_weight_gradients(device, sizes, g.mlp_projection_weight, g.mlp_projection_bias, gradient,
                       kept.activated, mlp_projection_layer, scratch);
  Product through_gelu = input_gradient(sizes, scratch.wide, gradient, mlp_projection_layer);
  through_gelu.epilogue = Epilogue::kGeluGradient;
  through_gelu.auxiliary = kept.mlp;
  device.run(Stream::kCompute, through_gelu);

  const Linear mlp_layer{p.mlp_weight, width, 4 * width};
  add_weight_gradients(device, sizes, g.mlp_weight, g.mlp_bias, scratch.wide, kept.normal2, mlp_layer,
                       scratch);
  device.run(Stream::kCompute, input_gradient(sizes, scratch.narrow, scratch.wide, mlp_layer));
  norm_backward(device, sizes, gradient, scratch.narrow, kept.middle, p.norm2_weight, g.norm2_weight,
                g.norm2_bias, kept.mean2, kept.inverse2, scratch);

  const Linear projection_layer{p.projection_weight, width, width};
  add_weight_gradients(device, sizes, g.projection_weight, g.projection_bias, gradient, kept.attended,
                       projection_layer, scratch);
  device.run(Stream::kCompute, input_gradient(sizes, scratch.narrow, gradient, projection_layer));
  AttentionBackward attention{};
  attention.qkv_gradient = scratch.wide;
  attention.gradient = scratch.narrow;
  attention.out = kept.attended;
  attention.qkv = kept.qkv;
  attention.log_sum = kept.log_sum;
  attention.scratch = scratch.attention;
  attention.rows = sizes.rows;
  attention.context = sizes.context;
  attention.heads = sizes.heads;
  attention.head_size = sizes.head_size;
  device.run(Stream::kCompute, attention);

  const Linear qkv_layer{p.qkv_weight, width, 3 * width};
  add_weight_gradients(device, sizes, g.qkv_weight, g.qkv_bias, scratch.wide, kept.normal1, qkv_layer,
                       scratch);
  device.run(Stream::kCompute, input_gradient(sizes, scratch.narrow, scratch.wide, qkv_layer));
  norm_backward(device, sizes, gradient, scratch.narrow, in, p.norm1_weight, g.norm1_weight, g.norm1_bias,
                kept.mean1, kept.inverse1, scratch);
}

}  // namespace tombolo::trainer::cuda
