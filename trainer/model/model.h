// The bundled model: GPT-2's architecture, and its tensors in llm.c's names and order.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

#include "planner/model/model.h"

namespace tombolo::trainer {

/// The numbers that fix every tensor's shape. Pre-norm blocks, learned positions, MLP of 4 x width, output
/// projection tied to the token embedding.
struct Shape {
  int context = 0;            ///< T: tokens per row
  int vocabulary = 256;       ///< V: bytes by default
  int padded_vocabulary = 0;  ///< rows of the token embedding, >= V; rows from V on are never used
  int layers = 0;             ///< L
  int heads = 0;
  int width = 0;  ///< C, a multiple of heads

  int head_size() const noexcept { return width / heads; }
  bool operator==(const Shape&) const = default;
  /// Throws kInvalidUsage naming the number that is out of range.
  void check() const;
  /// "4 layers, width 128, 4 heads, context 128, vocabulary 256"
  std::string text() const;
};

/// The planner's description of the same model.
planner::Model to_planner_model(const Shape& shape);
/// The shape of a planner's model, with the vocabulary padded to a multiple of 128. Throws kUnsupported
/// naming what the bundled trainer lacks: it has only GPT-2's architecture in fp32.
Shape to_shape(const planner::Model& model);
/// The number of rows of the token embedding for a vocabulary of this size.
int padded_vocabulary(int vocabulary) noexcept;

/// The kinds of tensors, in the order of a checkpoint file.
enum class Tensor {
  kTokenEmbedding,
  kPositionEmbedding,
  kNorm1Weight,
  kNorm1Bias,
  kQkvWeight,
  kQkvBias,
  kAttentionProjectionWeight,
  kAttentionProjectionBias,
  kNorm2Weight,
  kNorm2Bias,
  kMlpWeight,
  kMlpBias,
  kMlpProjectionWeight,
  kMlpProjectionBias,
  kFinalNormWeight,
  kFinalNormBias,
};
inline constexpr int kTensors = 16;

struct TensorInfo {
  std::string_view name;  ///< llm.c's: "wte", "qkvw", ...
  bool per_layer;
  bool matrix;  ///< only matrices decay
};
/// The facts about a kind of tensor.
const TensorInfo& tensor_info(Tensor tensor) noexcept;

/// The number of elements of one layer's tensor (or of the tensor, where there is one for the whole model).
std::size_t tensor_elements(const Shape& shape, Tensor tensor) noexcept;
/// Index of its first element among all the model's parameters, in a checkpoint's order; `layer` is ignored
/// where the tensor is not per layer.
std::size_t tensor_position(const Shape& shape, Tensor tensor, int layer) noexcept;
/// The number of all parameters of the model.
std::size_t parameter_count(const Shape& shape) noexcept;

}  // namespace tombolo::trainer
