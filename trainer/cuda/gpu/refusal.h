// What the GPU's kernels cannot take.
#pragma once

#include <cstddef>

#include "trainer/cuda/gpu/launches.h"
#include "trainer/cuda/operations/operation.h"

namespace tombolo::trainer::cuda::gpu {

/// CUDA's limit for the y and z coordinates of a launch's blocks.
inline constexpr std::size_t kMostInGrid = 65535;

/// A product's or attention's operands have one type; so have a norm's.
template <typename... Others>
bool same_element(const Values& first, const Others&... others) {
  return ((others.at == nullptr || others.element == first.element) && ...);
}

// What a kernel cannot take, in words; null where it takes all.
inline const char* refusal(const Embed& o) {
  return same_element(o.out, o.token_embedding, o.position_embedding) ? nullptr : "the tables' types differ";
}
inline const char* refusal(const EmbedBackward&) {
  return nullptr;
}
inline const char* refusal(const Norm& o) {
  if (o.width > kNormWidest) return "rows are at most 16384 wide";
  return same_element(o.out, o.sum, o.x, o.residual, o.weight, o.bias) ? nullptr
                                                                       : "the operands' types differ";
}
inline const char* refusal(const NormBackward& o) {
  if (o.width > kNormWidest) return "rows are at most 16384 wide";
  return same_element(o.gradient, o.x_gradient, o.x, o.weight) ? nullptr : "the operands' types differ";
}
inline const char* refusal(const Product& o) {
  if (!same_element(o.a, o.b)) return "the factors' types differ";
  if (o.epilogue == Epilogue::kSumOfA)
    return o.vector.element == Element::kFloat32 ? nullptr : "the sum of a is fp32";
  return same_element(o.out, o.vector, o.auxiliary) ? nullptr
                                                    : "the epilogue's types differ from the result's";
}
inline const char* refusal(const Add&) {
  return nullptr;
}
template <typename Either>
const char* attention_refusal(const Either& o) {
  if (o.head_size > kLargestHead) return "heads are at most 256 wide";
  if (o.heads > kMostInGrid || o.rows > kMostInGrid) return "heads and rows are at most 65535";
  return same_element(o.qkv, o.out) ? nullptr : "the operands' types differ";
}
inline const char* refusal(const Attention& o) {
  return attention_refusal(o);
}
inline const char* refusal(const AttentionBackward& o) {
  if (!same_element(o.qkv, o.gradient, o.qkv_gradient)) return "the operands' types differ";
  return attention_refusal(o);
}
inline const char* refusal(const CrossEntropy& o) {
  return o.vocabulary <= o.stride ? nullptr : "rows overlap";
}
inline const char* refusal(const Sum&) {
  return nullptr;
}
inline const char* refusal(const AdamWUpdate& o) {
  if (o.range_count > kMostInGrid) return "ranges are at most 65535";
  if (o.copy.at != nullptr && o.copy.element != Element::kBfloat16) return "the copy is bf16";
  return same_element(o.first_moment, o.second_moment) ? nullptr : "the moments' types differ";
}
inline const char* refusal(const Convert&) {
  return nullptr;
}

}  // namespace tombolo::trainer::cuda::gpu
