#include "trainer/cuda/stage/head.h"

#include <algorithm>

namespace tombolo::trainer::cuda {
namespace {

/// The scores of `count` tokens of `normal`: normal embedding^T.
Product scores_of(const StageSizes& sizes, const Values& normal, std::size_t count,
                  const HeadTensors& tensors, const ScratchBuffers& scratch) {
  Product product{};
  product.out = scratch.scores;
  product.a = normal;
  product.b = tensors.embedding;
  product.b_transposed = true;
  product.m = count;
  product.n = sizes.padded_vocabulary;
  product.k = sizes.width;
  return product;
}

}  // namespace

HeadTensors::HeadTensors(Values parameters, float* gradients, const StageParameters& layout) {
  const auto offset = [&](Tensor tensor) { return layout.find(tensor).offset; };
  const auto gradient = [&](Tensor tensor) {
    return gradients == nullptr ? nullptr : gradients + offset(tensor);
  };
  norm_weight = from_element(parameters, offset(Tensor::kFinalNormWeight));
  norm_bias = from_element(parameters, offset(Tensor::kFinalNormBias));
  embedding = from_element(parameters, offset(Tensor::kTokenEmbedding));
  norm_weight_gradient = gradient(Tensor::kFinalNormWeight);
  norm_bias_gradient = gradient(Tensor::kFinalNormBias);
  embedding_gradient = gradient(Tensor::kTokenEmbedding);
}

void head_norm(Device& device, const StageSizes& sizes, const SlotBuffers& slot, const HeadTensors& tensors,
               const ScratchBuffers& scratch) {
  const LayerBuffers& last = slot.layers.back();
  Norm norm{};
  norm.out = scratch.wide;
  norm.sum = last.out;
  norm.x = scratch.projected;
  norm.residual = last.middle;
  norm.weight = tensors.norm_weight;
  norm.bias = tensors.norm_bias;
  norm.mean = slot.mean;
  norm.inverse = slot.inverse;
  norm.rows = sizes.tokens;
  norm.width = sizes.width;
  device.run(Stream::kCompute, norm);
}

void head_loss(Device& device, const StageSizes& sizes, const SlotBuffers& slot, const HeadTensors& tensors,
               const ScratchBuffers& scratch, double* loss, float scale) {
  for (std::size_t begin = 0; begin < sizes.tokens; begin += sizes.chunk) {
    const std::size_t count = std::min(sizes.chunk, sizes.tokens - begin);
    const Values normal = from_element(scratch.wide, begin * sizes.width);
    device.run(Stream::kCompute, scores_of(sizes, normal, count, tensors, scratch));
    CrossEntropy entropy{};
    entropy.scores = scratch.scores;
    entropy.losses = slot.losses + begin;
    entropy.targets = slot.tokens + sizes.targets_begin() + begin;
    entropy.rows = count;
    entropy.vocabulary = sizes.vocabulary;
    entropy.stride = sizes.padded_vocabulary;
    entropy.scale = scale;
    entropy.gradient = sizes.training;
    device.run(Stream::kCompute, entropy);
    if (!sizes.training) continue;

    Product by_normal{};
    by_normal.out = from_element(slot.normal_gradient, begin * sizes.width);
    by_normal.a = scratch.scores;
    by_normal.b = tensors.embedding;
    by_normal.m = count;
    by_normal.n = sizes.width;
    by_normal.k = sizes.padded_vocabulary;
    device.run(Stream::kCompute, by_normal);
    Product by_embedding{};
    by_embedding.out = fp32(tensors.embedding_gradient);
    by_embedding.a = scratch.scores;
    by_embedding.a_transposed = true;
    by_embedding.b = normal;
    by_embedding.accumulate = true;
    by_embedding.m = sizes.padded_vocabulary;
    by_embedding.n = sizes.width;
    by_embedding.k = count;
    device.run(Stream::kCompute, by_embedding);
  }
  device.run(Stream::kCompute, Sum{loss, slot.losses, scratch.sum, sizes.tokens, false});
}

void head_backward(Device& device, const StageSizes& sizes, const SlotBuffers& slot, const Values& gradient,
                   const HeadTensors& tensors, const ScratchBuffers& scratch) {
  device.clear(Stream::kCompute, gradient.at, sizes.boundary_bytes());
  NormBackward norm{};
  norm.x_gradient = gradient;
  norm.gradient = slot.normal_gradient;
  norm.x = slot.layers.back().out;
  norm.weight = tensors.norm_weight;
  norm.weight_gradient = tensors.norm_weight_gradient;
  norm.bias_gradient = tensors.norm_bias_gradient;
  norm.mean = slot.mean;
  norm.inverse = slot.inverse;
  norm.scratch = scratch.norm;
  norm.rows = sizes.tokens;
  norm.width = sizes.width;
  device.run(Stream::kCompute, norm);
}

float* head_scores(Device& device, const StageSizes& sizes, const SlotBuffers& slot, std::size_t token,
                   const HeadTensors& tensors, const ScratchBuffers& scratch) {
  Norm norm{};
  norm.out = scratch.wide;
  norm.x = from_element(slot.layers.back().out, token * sizes.width);
  norm.weight = tensors.norm_weight;
  norm.bias = tensors.norm_bias;
  norm.mean = scratch.statistics;
  norm.inverse = scratch.statistics + 1;
  norm.rows = 1;
  norm.width = sizes.width;
  device.run(Stream::kCompute, norm);
  device.run(Stream::kCompute, scores_of(sizes, scratch.wide, 1, tensors, scratch));
  device.run(Stream::kCompute, Convert{fp32(scratch.score_row), scratch.scores, sizes.padded_vocabulary});
  return scratch.score_row;
}

}  // namespace tombolo::trainer::cuda
