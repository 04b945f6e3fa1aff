// The operations that the CUDA back end asks of its device, as data: what is read, what is written, in which
// shape. A device carries them out: CudaDevice by kernels and cuBLASLt, PretendedDevice by the reference in
// reference.h. Matrices are row-major and without gaps unless a stride is given; "count" and "rows" are in
// elements and tokens.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>
#include <variant>
#include <vector>

#include "trainer/model/optimizer.h"

namespace tombolo::trainer::cuda {

enum class Element { kFloat32, kBfloat16 };
std::size_t element_bytes(Element element) noexcept;

/// Numbers in the device's memory, of the stage's element type. Every operation computes in fp32 and rounds
/// what it stores to nearest even.
struct Values {
  std::byte* at = nullptr;
  Element element = Element::kFloat32;
};

/// out[i] = token_embedding[tokens[i]] + position_embedding[i mod context]
struct Embed {
  Values out, token_embedding, position_embedding;
  const std::int32_t* tokens;
  std::size_t count, context, width;
  std::size_t vocabulary;  ///< rows of token_embedding
};

/// token_gradient[tokens[i]] += gradient[i]; position_gradient[i mod context] += gradient[i]. In the order of
/// i, so that the same input gives the same bits: `order` holds 0 .. count - 1 sorted by token (equal tokens
/// in their order), and run r of equal tokens is order[runs[r]] .. order[runs[r + 1] - 1]. runs has count + 1
/// entries; those after the last run are count.
struct EmbedBackward {
  float *token_gradient, *position_gradient;
  Values gradient;
  const std::int32_t *tokens, *order, *runs;
  std::size_t count, context, width;
  std::size_t vocabulary;  ///< rows of token_gradient
};

/// sum = x + residual, rounded to what is stored (where residual is given; else sum is x and not written);
/// out = (sum - mean) inverse weight + bias, with mean and inverse deviation (epsilon 1e-5) per row. All that
/// follows the sum takes the rounded one, so that a norm computed again from `sum` gives the same bits.
struct Norm {
  Values out, sum, x, residual, weight, bias;
  float *mean, *inverse;  ///< one per row, kept for backward
  std::size_t rows, width;
};

/// x_gradient += ..., weight_gradient += ..., bias_gradient += ...; `x` is what was normalised.
struct NormBackward {
  Values x_gradient, gradient, x, weight;
  float *weight_gradient, *bias_gradient;
  const float *mean, *inverse;
  float* scratch;  ///< norm_backward_scratch(width) floats
  std::size_t rows, width;
};
/// Rows are summed in at most this many parts before the parts are.
inline constexpr std::size_t kNormParts = 256;
/// 2 x kNormParts x width: of each part, the two gradients.
std::size_t norm_backward_scratch(std::size_t width) noexcept;

enum class Epilogue {
  kNone,
  kBias,          ///< out += vector, a bias of n elements
  kBiasGelu,      ///< auxiliary = product + vector; out = gelu(auxiliary), GPT-2's tanh form
  kGeluGradient,  ///< out = product x gelu'(auxiliary)
  kSumOfA,        ///< vector (fp32, m elements) = sum of a over k: the bias gradient beside a weight gradient
};

/// Bytes that a product may use beside its operands, lent by Device::lend_workspace(): sums of parts of k,
/// and our own sums.
inline constexpr std::size_t kProductWorkspace = std::size_t{32} << 20;

/// out (m x n) = a (m x k) b (k x n) [+ out], then the epilogue. `a_transposed`: a is stored k x m; likewise
/// b.
struct Product {
  Values out, a, b;
  bool a_transposed = false, b_transposed = false;
  bool accumulate = false;  ///< only with kNone, kBias and kSumOfA
  std::size_t m, n, k;
  Epilogue epilogue = Epilogue::kNone;
  Values vector, auxiliary;  ///< as the epilogue says; auxiliary is m x n
};

/// to += from
struct Add {
  float* to;
  const float* from;
  std::size_t count;
};

/// Causal self-attention, scaled by 1 / sqrt(head size). qkv: rows x context x 3 x heads x head size; out:
/// rows x context x heads x head size; log_sum: rows x heads x context, the logarithm of each softmax's
/// denominator.
struct Attention {
  Values out, qkv;
  float* log_sum;
  std::size_t rows, context, heads, head_size;
};

/// qkv_gradient is overwritten. Deterministic: no atomic additions.
struct AttentionBackward {
  Values qkv_gradient, gradient, out, qkv;
  const float* log_sum;
  std::byte* scratch;  ///< the device's attention_scratch() bytes
  std::size_t rows, context, heads, head_size;
};

/// Of `rows` tokens' scores, `stride` elements from row to row, of which the first `vocabulary` count:
/// losses[i] = log(sum exp) - score of the target; with `gradient`, scores become (softmax - one at the
/// target) x scale, and 0 from vocabulary to stride.
struct CrossEntropy {
  Values scores;
  float* losses;
  const std::int32_t* targets;
  std::size_t rows, vocabulary, stride;
  float scale;
  bool gradient;
};

/// *sum += x[0] + ... (or of their squares), in an order that depends on count alone.
struct Sum {
  double* sum;
  const float* x;
  double* scratch;  ///< kSumScratch doubles
  std::size_t count;
  bool squares;
};
inline constexpr std::size_t kSumScratch = 1024;

/// Part of an arena that decays or does not; `begin` and `count` are in floats.
struct Range {
  std::uint64_t begin, count;
  float decays;  ///< 1 or 0
};

/// The optimizer's step (see AdamWStep) over the ranges, which are in the device's memory. `step` is in the
/// device's memory too, so that a graph finds new constants each time. Moments in bf16 are rounded up or down
/// at random, by rounding_bits() of element and step number (rounding.h). `copy` is what products read; null
/// in fp32.
struct AdamWUpdate {
  float* parameters;
  Values copy, first_moment, second_moment;
  const float* gradients;
  const Range* ranges;
  std::size_t range_count;
  std::size_t largest;  ///< the largest range's count
  std::size_t size;     ///< of the arenas, in floats; the ranges lie inside
  const AdamWStep* step;
  const std::int64_t* step_number;
};

/// to = from, rounded where it must be.
struct Convert {
  Values to, from;
  std::size_t count;
};

using Operation = std::variant<Embed, EmbedBackward, Norm, NormBackward, Product, Add, Attention,
                               AttentionBackward, CrossEntropy, Sum, AdamWUpdate, Convert>;

/// "layer norm", "attention backward", ...: for errors and traces.
std::string_view operation_name(const Operation& operation) noexcept;

/// A stretch of memory that an operation touches.
struct Access {
  const void* at;
  std::size_t bytes;
  bool reads, writes;
};
/// Everything that it touches; of embeddings and of AdamWUpdate's arenas all, whichever rows and ranges it
/// is.
std::vector<Access> accesses(const Operation& operation);

}  // namespace tombolo::trainer::cuda
