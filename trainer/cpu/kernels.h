// The element-wise kernels, compiled once per instruction set; which are used is decided at run time.
// Matrices are row-major. No kernel allocates.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>

#include "trainer/model/optimizer.h"

namespace tombolo::compute {
enum class InstructionSet;
}

namespace tombolo::trainer::cpu {

struct Kernels {
  std::string_view name;  ///< "avx512", "avx2", "baseline"

  /// bias_gradient += sum over rows of gradient
  void (*sum_rows)(float* bias_gradient, const float* gradient, std::size_t rows, std::size_t width);
  /// out[i] = embedding[tokens[i]] + positions[i mod context], for `count` tokens
  void (*embed)(float* out, const std::int32_t* tokens, const float* embedding, const float* positions,
                std::size_t count, std::size_t context, std::size_t width);
  void (*embed_backward)(float* embedding_gradient, float* position_gradient, const float* gradient,
                         const std::int32_t* tokens, std::size_t count, std::size_t context,
                         std::size_t width);

  /// Layer norm with epsilon 1e-5. `mean` and `inverse` (the inverse deviation) have one value per row and
  /// are kept for the backward pass.
  void (*norm)(float* out, float* mean, float* inverse, const float* x, const float* weight,
               const float* bias, std::size_t rows, std::size_t width);
  /// x_gradient += ..., weight_gradient += ..., bias_gradient += ...
  void (*norm_backward)(float* x_gradient, float* weight_gradient, float* bias_gradient,
                        const float* gradient, const float* x, const float* mean, const float* inverse,
                        const float* weight, std::size_t rows, std::size_t width);

  /// GELU in GPT-2's tanh form.
  void (*gelu)(float* out, const float* x, std::size_t count);
  /// gradient *= gelu'(x); bias_gradient += sum of that over rows
  void (*gelu_backward)(float* gradient, const float* x, float* bias_gradient, std::size_t rows,
                        std::size_t width);

  /// Works in place, on query rows [first, first + rows) of a row's attention: row q becomes the softmax of
  /// its first q + 1 entries, and 0 up to `width`. `stride` is in floats, from row to row.
  void (*causal_softmax)(float* scores, std::size_t first, std::size_t rows, std::size_t width,
                         std::size_t stride);
  /// gradient = p (gradient - sum(p gradient)) scale, over `width` entries per row; p has its own stride.
  void (*softmax_backward)(float* gradient, const float* probabilities, std::size_t rows, std::size_t width,
                           std::size_t gradient_stride, std::size_t probability_stride, float scale);
  /// Replaces each row of scores by its loss's gradient: (softmax - one at target) scale. Returns the sum of
  /// losses.
  double (*cross_entropy)(float* scores, const std::int32_t* targets, std::size_t rows, std::size_t width,
                          float scale);

  double (*square_sum)(const float* x, std::size_t count);
  /// See AdamWStep; `decay` is 1 for tensors that do not decay.
  void (*adamw)(float* parameters, const float* gradients, float* first_moment, float* second_moment,
                std::size_t count, const AdamWStep& step, float decay);
};

/// The kernels for an instruction set that this machine has.
const Kernels& kernels(compute::InstructionSet set) noexcept;

extern const Kernels kBaselineKernels;
#if defined(__x86_64__)
extern const Kernels kAvx2Kernels;
extern const Kernels kAvx512Kernels;
#endif

}  // namespace tombolo::trainer::cpu
