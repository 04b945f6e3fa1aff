#include "trainer/model/model.h"

#include <array>

#include "base/error.h"

namespace tombolo::trainer {
namespace {

constexpr std::array<TensorInfo, kTensors> kInfo{{
    {"wte", false, true},
    {"wpe", false, true},
    {"ln1w", true, false},
    {"ln1b", true, false},
    {"qkvw", true, true},
    {"qkvb", true, false},
    {"attprojw", true, true},
    {"attprojb", true, false},
    {"ln2w", true, false},
    {"ln2b", true, false},
    {"fcw", true, true},
    {"fcb", true, false},
    {"fcprojw", true, true},
    {"fcprojb", true, false},
    {"lnfw", false, false},
    {"lnfb", false, false},
}};

void check_range(std::string_view what, int value, int low, int high) {
  if (value < low || value > high)
    fail(Cause::kInvalidUsage, "model: {} is {}, but must be from {} to {}", what, value, low, high);
}

}  // namespace

void Shape::check() const {
  check_range("context", context, 1, 1 << 20);
  check_range("vocabulary", vocabulary, 2, 1 << 24);
  check_range("padded vocabulary", padded_vocabulary, vocabulary, 1 << 24);
  check_range("layers", layers, 1, 4096);
  check_range("width", width, 1, 1 << 16);
  check_range("heads", heads, 1, width);
  if (width % heads != 0)
    fail(Cause::kInvalidUsage, "model: width {} is not a multiple of heads {}", width, heads);
}

std::string Shape::text() const {
  return fmt::format("{} layers, width {}, {} heads, context {}, vocabulary {}", layers, width, heads,
                     context, vocabulary);
}

planner::Model to_planner_model(const Shape& shape) {
  planner::Model model;
  model.name = "gpt";
  model.layers = shape.layers;
  model.hidden = shape.width;
  model.heads = shape.heads;
  model.context = shape.context;
  model.vocabulary = shape.vocabulary;
  model.bytes_per_value = 4;
  return model;
}

int padded_vocabulary(int vocabulary) noexcept {
  return (vocabulary + 127) / 128 * 128;
}

Shape to_shape(const planner::Model& model) {
  const auto refuse = [](const std::string& what) {
    fail(Cause::kUnsupported,
         "the model has {}, which the bundled trainer does not have; it trains GPT-2's shape", what);
  };
  if (model.key_value_heads() != model.heads) refuse(fmt::format("kv_heads {}", model.kv_heads));
  if (model.inner() != 4 * model.hidden) refuse(fmt::format("feed_forward {}", model.feed_forward));
  if (model.gated) refuse("a gated MLP");
  if (!model.learned_positions) refuse("rotary positions");
  if (!model.tied_embeddings) refuse("an output projection of its own");
  if (!model.biases) refuse("no biases");
  if (model.query_key_norms) refuse("norms of queries and keys");
  if (model.head_width > 0 && model.attention_width() != model.hidden)
    refuse(fmt::format("head_width {}", model.head_width));
  if (model.bytes_per_value != 4)
    fail(Cause::kUnsupported,
         "the model's values have {} bytes, but the bundled trainer computes in fp32; bytes=4",
         model.bytes_per_value);
  Shape shape;
  shape.context = model.context;
  shape.vocabulary = model.vocabulary;
  shape.padded_vocabulary = padded_vocabulary(model.vocabulary);
  shape.layers = model.layers;
  shape.heads = model.heads;
  shape.width = model.hidden;
  return shape;
}

const TensorInfo& tensor_info(Tensor tensor) noexcept {
  return kInfo[static_cast<std::size_t>(tensor)];
}

std::size_t tensor_elements(const Shape& shape, Tensor tensor) noexcept {
  const auto width = static_cast<std::size_t>(shape.width);
  switch (tensor) {
    case Tensor::kTokenEmbedding:
      return static_cast<std::size_t>(shape.padded_vocabulary) * width;
    case Tensor::kPositionEmbedding:
      return static_cast<std::size_t>(shape.context) * width;
    case Tensor::kQkvWeight:
      return 3 * width * width;
    case Tensor::kQkvBias:
      return 3 * width;
    case Tensor::kAttentionProjectionWeight:
      return width * width;
    case Tensor::kMlpWeight:
    case Tensor::kMlpProjectionWeight:
      return 4 * width * width;
    case Tensor::kMlpBias:
      return 4 * width;
    case Tensor::kNorm1Weight:
    case Tensor::kNorm1Bias:
    case Tensor::kAttentionProjectionBias:
    case Tensor::kNorm2Weight:
    case Tensor::kNorm2Bias:
    case Tensor::kMlpProjectionBias:
    case Tensor::kFinalNormWeight:
    case Tensor::kFinalNormBias:
      return width;
  }
  return 0;
}

std::size_t tensor_position(const Shape& shape, Tensor tensor, int layer) noexcept {
  const auto layers = static_cast<std::size_t>(shape.layers);
  std::size_t position = 0;
  for (int index = 0; index < static_cast<int>(tensor); ++index) {
    const auto before = static_cast<Tensor>(index);
    position += tensor_elements(shape, before) * (tensor_info(before).per_layer ? layers : 1);
  }
  if (tensor_info(tensor).per_layer)
    position += tensor_elements(shape, tensor) * static_cast<std::size_t>(layer);
  return position;
}

std::size_t parameter_count(const Shape& shape) noexcept {
  return tensor_position(shape, Tensor::kFinalNormBias, 0) + tensor_elements(shape, Tensor::kFinalNormBias);
}

}  // namespace tombolo::trainer
