#include "trainer/cpu/attention.h"

#include <algorithm>
#include <cmath>

#include "compute/gemm.h"

namespace tombolo::trainer::cpu {
namespace {

using compute::multiply;

// How many queries are taken at a time, against the keys up to the block's own end: with a smaller block less
// of the masked half is computed, but the products are slower.
constexpr std::size_t kBlock = 32;

/// One head of one row: where its queries, keys and values begin.
struct Head {
  Head(const float* qkv, const AttentionShape& shape, std::size_t row, std::size_t head)
      : query(qkv + row * shape.context * 3 * shape.width() + head * shape.head_size),
        key(query + shape.width()),
        value(key + shape.width()) {}
  const float *query, *key, *value;
};

}  // namespace

std::size_t AttentionShape::scratch() const noexcept {
  return std::min(kBlock, context) * context;
}

void attention(float* out, float* probabilities, const float* qkv, const AttentionShape& shape,
               const Kernels& kernels) noexcept {
  const std::size_t tokens = shape.context;
  const std::size_t stride = 3 * shape.width();
  const float scale = 1.0F / std::sqrt(static_cast<float>(shape.head_size));
  for (std::size_t row = 0; row < shape.rows; ++row)
    for (std::size_t index = 0; index < shape.heads; ++index) {
      const Head head(qkv, shape, row, index);
      float* p = probabilities + (row * shape.heads + index) * tokens * tokens;
      float* to = out + row * tokens * shape.width() + index * shape.head_size;
      for (std::size_t first = 0; first < tokens; first += kBlock) {
        const std::size_t block = std::min(kBlock, tokens - first);
        const std::size_t seen = first + block;
        float* scores = p + first * tokens;
        multiply(scores, tokens, {head.query + first * stride, stride}, {head.key, stride, true}, block, seen,
                 shape.head_size, {.scale = scale});
        kernels.causal_softmax(scores, first, block, seen, tokens);
        multiply(to + first * shape.width(), shape.width(), {scores, tokens}, {head.value, stride}, block,
                 shape.head_size, seen);
      }
    }
}

void attention_backward(float* qkv_gradient, float* scratch, const float* gradient, const float* qkv,
                        const float* probabilities, const AttentionShape& shape,
                        const Kernels& kernels) noexcept {
  const std::size_t tokens = shape.context;
  const std::size_t width = shape.width();
  const std::size_t stride = 3 * width;
  const float scale = 1.0F / std::sqrt(static_cast<float>(shape.head_size));
  const std::size_t last_block = (tokens - 1) / kBlock * kBlock;
  for (std::size_t row = 0; row < shape.rows; ++row)
    for (std::size_t index = 0; index < shape.heads; ++index) {
      const Head head(qkv, shape, row, index);
      float* query_gradient = qkv_gradient + row * tokens * stride + index * shape.head_size;
      float* key_gradient = query_gradient + width;
      float* value_gradient = key_gradient + width;
      const float* from = gradient + row * tokens * width + index * shape.head_size;
      const float* p = probabilities + (row * shape.heads + index) * tokens * tokens;
      // The last block sees every key, so it may overwrite; the others add.
      for (std::size_t first = last_block;; first -= kBlock) {
        const std::size_t block = std::min(kBlock, tokens - first);
        const std::size_t seen = first + block;
        // This is the sum that the blocks before have left there.
        const compute::Epilogue added_value{.matrix = first == last_block ? nullptr : value_gradient,
                                            .matrix_stride = stride};
        const compute::Epilogue added_key{.matrix = first == last_block ? nullptr : key_gradient,
                                          .matrix_stride = stride};
        const float* block_gradient = from + first * width;
        const float* block_p = p + first * tokens;
        multiply(value_gradient, stride, {block_p, tokens, true}, {block_gradient, width}, seen,
                 shape.head_size, block, added_value);
        multiply(scratch, tokens, {block_gradient, width}, {head.value, stride, true}, block, seen,
                 shape.head_size);
        kernels.softmax_backward(scratch, block_p, block, seen, tokens, tokens, scale);
        multiply(query_gradient + first * stride, stride, {scratch, tokens}, {head.key, stride}, block,
                 shape.head_size, seen);
        multiply(key_gradient, stride, {scratch, tokens, true}, {head.query + first * stride, stride}, seen,
                 shape.head_size, block, added_key);
        if (first == 0) break;
      }
    }
}

}  // namespace tombolo::trainer::cpu
