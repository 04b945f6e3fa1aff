// Causal self-attention over a micro-batch.
#pragma once

#include <cstddef>

#include "trainer/cpu/kernels.h"

namespace tombolo::trainer::cpu {

struct AttentionShape {
  std::size_t rows = 0;     ///< of the micro-batch
  std::size_t context = 0;  ///< T
  std::size_t heads = 0;
  std::size_t head_size = 0;

  std::size_t width() const noexcept { return heads * head_size; }
  /// Floats of the probabilities kept for backward: rows x heads x T x T.
  std::size_t probabilities() const noexcept { return rows * heads * context * context; }
  /// Floats of scratch that backward needs.
  std::size_t scratch() const noexcept;
};

/// qkv is rows x T x 3 width (queries, keys, values side by side); out is rows x T x width.
void attention(float* out, float* probabilities, const float* qkv, const AttentionShape& shape,
               const Kernels& kernels) noexcept;

/// Overwrites qkv_gradient.
void attention_backward(float* qkv_gradient, float* scratch, const float* gradient, const float* qkv,
                        const float* probabilities, const AttentionShape& shape,
                        const Kernels& kernels) noexcept;

}  // namespace tombolo::trainer::cpu
