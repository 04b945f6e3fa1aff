#include "trainer/model/hugging_face.h"

#include <algorithm>
#include <array>
#include <nlohmann/json.hpp>
#include <utility>
#include <vector>

#include "base/error.h"
#include "trainer/model/input_file.h"
#include "trainer/model/output_file.h"
#include "trainer/model/safetensors.h"

namespace tombolo::trainer {
namespace {

/// How transformers name and shape a tensor. Weights of linear layers are those of its Conv1D: [in, out],
/// where the trainer and llm.c have [out, in].
struct NamedTensor {
  Tensor tensor;
  std::string_view name;  ///< after "h.N." where it is per layer
  bool transposed;
};

constexpr std::array<NamedTensor, kTensors> kNames{{
    {Tensor::kTokenEmbedding, "wte.weight", false},
    {Tensor::kPositionEmbedding, "wpe.weight", false},
    {Tensor::kNorm1Weight, "ln_1.weight", false},
    {Tensor::kNorm1Bias, "ln_1.bias", false},
    {Tensor::kQkvWeight, "attn.c_attn.weight", true},
    {Tensor::kQkvBias, "attn.c_attn.bias", false},
    {Tensor::kAttentionProjectionWeight, "attn.c_proj.weight", true},
    {Tensor::kAttentionProjectionBias, "attn.c_proj.bias", false},
    {Tensor::kNorm2Weight, "ln_2.weight", false},
    {Tensor::kNorm2Bias, "ln_2.bias", false},
    {Tensor::kMlpWeight, "mlp.c_fc.weight", true},
    {Tensor::kMlpBias, "mlp.c_fc.bias", false},
    {Tensor::kMlpProjectionWeight, "mlp.c_proj.weight", true},
    {Tensor::kMlpProjectionBias, "mlp.c_proj.bias", false},
    {Tensor::kFinalNormWeight, "ln_f.weight", false},
    {Tensor::kFinalNormBias, "ln_f.bias", false},
}};

constexpr std::string_view kPrefix = "transformer.";  // older files have none

const NamedTensor& named(Tensor tensor) {
  return kNames[static_cast<std::size_t>(tensor)];
}

std::string stored_name(Tensor tensor, int layer) {
  if (!tensor_info(tensor).per_layer) return std::string(named(tensor).name);
  return fmt::format("h.{}.{}", layer, named(tensor).name);
}

/// Rows and columns in the trainer's order; a vector has one row. The embedding without its padding.
std::pair<std::uint64_t, std::uint64_t> rows_and_columns(const Shape& shape, Tensor tensor) {
  const auto width = static_cast<std::uint64_t>(shape.width);
  switch (tensor) {
    case Tensor::kTokenEmbedding:
      return {shape.vocabulary, width};
    case Tensor::kPositionEmbedding:
      return {shape.context, width};
    case Tensor::kQkvWeight:
      return {3 * width, width};
    case Tensor::kAttentionProjectionWeight:
      return {width, width};
    case Tensor::kMlpWeight:
      return {4 * width, width};
    case Tensor::kMlpProjectionWeight:
      return {width, 4 * width};
    default:
      return {1, tensor_elements(shape, tensor)};
  }
}

std::vector<std::uint64_t> stored_shape(const Shape& shape, Tensor tensor) {
  const auto [rows, columns] = rows_and_columns(shape, tensor);
  if (!tensor_info(tensor).matrix) return {columns};
  if (named(tensor).transposed) return {columns, rows};
  return {rows, columns};
}

struct Paths {
  std::filesystem::path tensors, config;
};

Paths paths_of(const std::string& path) {
  if (std::filesystem::is_directory(path)) {
    const std::filesystem::path folder(path);
    if (!std::filesystem::exists(folder / "model.safetensors"))
      fail(Cause::kInvalidUsage, "model {}: the folder has no model.safetensors", path);
    return {folder / "model.safetensors", folder / "config.json"};
  }
  return {path, std::filesystem::absolute(path).parent_path() / "config.json"};
}

/// Finds a model's tensors in a file, and checks each against the shape before it is read.
class Reader {
 public:
  Reader(const std::string& path, const Shape& shape)
      : shape_(shape), file_("model", path), tensors_(read_safetensors(file_)) {
    for (const NamedTensor& one : kNames)
      for (int layer = 0; layer < (tensor_info(one.tensor).per_layer ? shape.layers : 1); ++layer)
        find(one.tensor, layer);
  }

  void read(const Slice& slice, std::span<float> values) const {
    const StoredTensor& stored = find(slice.tensor, slice.layer);
    const auto [rows, columns] = rows_and_columns(shape_, slice.tensor);
    std::ranges::fill(values, 0.0F);  // of the embedding's padding
    const bool transposed = named(slice.tensor).transposed;
    std::vector<std::byte> raw;
    std::vector<float> portion;
    for (std::uint64_t done = 0; done < stored.elements(); done += kValuesAtOnce) {
      const auto count =
          static_cast<std::size_t>(std::min<std::uint64_t>(kValuesAtOnce, stored.elements() - done));
      raw.resize(count * value_bytes(*stored.type));
      portion.resize(count);
      file_.read(stored.begin + done * value_bytes(*stored.type), raw);
      decode_values(*stored.type, raw, portion);
      if (!transposed) {
        std::ranges::copy(portion, values.begin() + static_cast<std::ptrdiff_t>(done));
        continue;
      }
      for (std::size_t at = 0; at < count; ++at) {
        const std::uint64_t row = (done + at) % rows, column = (done + at) / rows;
        values[row * columns + column] = portion[at];
      }
    }
  }

 private:
  const StoredTensor& find(Tensor tensor, int layer) const {
    const std::string name = stored_name(tensor, layer);
    auto found = tensors_.find(name);
    if (found == tensors_.end()) found = tensors_.find(std::string(kPrefix) + name);
    if (found == tensors_.end()) fail(Cause::kInvalidUsage, "{}: has no tensor {}", file_.name(), name);
    const StoredTensor& stored = found->second;
    if (!stored.type)
      fail(Cause::kUnsupported, "{}: tensor {} is of {}; this build reads F32, BF16 and F16", file_.name(),
           name, stored.type_name);
    if (stored.shape != stored_shape(shape_, tensor))
      fail(Cause::kInvalidUsage, "{}: tensor {} has shape [{}], but config.json makes it [{}]", file_.name(),
           name, fmt::join(stored.shape, ", "), fmt::join(stored_shape(shape_, tensor), ", "));
    return stored;
  }

  Shape shape_;
  InputFile file_;
  StoredTensors tensors_;
};

[[noreturn]] void refuse(const JsonCursor& cursor, const std::string& what) {
  try {
    cursor.reject(what + ", which the bundled trainer does not have; it trains GPT-2's architecture");
  } catch (const Error& error) {
    throw Error(Cause::kUnsupported, error.what());
  }
}

/// Throws kUnsupported where the field is there and has another value.
void expect_flag(const JsonCursor& config, std::string_view name, bool value) {
  const auto field = config.optional(name);
  if (field && field->boolean() != value) refuse(*field, value ? "false" : "true");
}

Json config_of(const Shape& shape, ValueType type) {
  return {{"architectures", {"GPT2LMHeadModel"}},
          {"model_type", "gpt2"},
          {"activation_function", "gelu_new"},
          {"attn_pdrop", 0.0},
          {"embd_pdrop", 0.0},
          {"resid_pdrop", 0.0},
          {"layer_norm_epsilon", 1e-5},
          {"n_ctx", shape.context},
          {"n_positions", shape.context},
          {"n_embd", shape.width},
          {"n_head", shape.heads},
          {"n_layer", shape.layers},
          {"n_inner", nullptr},
          {"vocab_size", shape.vocabulary},
          // transformers' defaults are GPT-2's <|endoftext|>, which smaller vocabularies do not have.
          {"bos_token_id", shape.vocabulary > 50256 ? Json(50256) : Json(nullptr)},
          {"eos_token_id", shape.vocabulary > 50256 ? Json(50256) : Json(nullptr)},
          {"tie_word_embeddings", true},
          {"torch_dtype", type == ValueType::kFloat32 ? "float32" : "bfloat16"}};
}

}  // namespace

bool is_hugging_face(const std::string& path) {
  std::error_code ignored;
  return path.ends_with(".safetensors") || std::filesystem::is_directory(path, ignored);
}

Shape parse_hugging_face_config(const JsonCursor& config) {
  if (const auto type = config.optional("model_type"); type && type->text() != "gpt2")
    refuse(*type, "the architecture " + type->text());
  constexpr std::int64_t kMost = 1 << 24;  // Shape::check() is stricter
  const auto number = [&](const char* name) {
    return static_cast<int>(config.field(name).integer(1, kMost));
  };
  Shape shape;
  shape.context = number("n_positions");
  shape.vocabulary = number("vocab_size");
  shape.layers = number("n_layer");
  shape.heads = number("n_head");
  shape.width = number("n_embd");
  shape.padded_vocabulary = padded_vocabulary(shape.vocabulary);
  try {
    shape.check();
  } catch (const Error& error) {
    config.reject(error.what());
  }
  if (const auto inner = config.optional("n_inner"); inner && inner->integer(1, kMost) != 4 * shape.width)
    refuse(*inner, "an MLP of another width than 4 n_embd");
  if (const auto activation = config.optional("activation_function");
      activation && activation->text() != "gelu_new" && activation->text() != "gelu_pytorch_tanh")
    refuse(*activation, "the activation " + activation->text());
  if (const auto epsilon = config.optional("layer_norm_epsilon"); epsilon && epsilon->number() != 1e-5)
    refuse(*epsilon, "an epsilon of the norms other than 1e-5");
  expect_flag(config, "tie_word_embeddings", true);
  expect_flag(config, "scale_attn_weights", true);
  expect_flag(config, "scale_attn_by_inverse_layer_idx", false);
  return shape;
}

Shape read_hugging_face_shape(const std::string& path) {
  const Paths paths = paths_of(path);
  if (!std::filesystem::exists(paths.tensors))
    fail(Cause::kInvalidUsage, "model {}: cannot be opened: there is no such file", paths.tensors.string());
  if (!std::filesystem::exists(paths.config))
    fail(Cause::kInvalidUsage, "model {}: config.json, which says how many heads it has, is not beside it",
         path);
  const Shape shape = parse_hugging_face_config(JsonDocument::load(paths.config.string()).root());
  const Reader checked(paths.tensors.string(), shape);
  return shape;
}

void read_hugging_face(const std::string& path, const StageParameters& parameters, std::span<float> arena) {
  const Shape shape = read_hugging_face_shape(path);
  const Reader reader(paths_of(path).tensors.string(), shape);
  for (const Slice& slice : parameters.slices())
    reader.read(slice, arena.subspan(slice.offset, slice.elements));
}

void write_hugging_face(const std::string& path, const Shape& shape, std::span<const float> all,
                        ValueType type) {
  TOMBOLO_CHECK(all.size() == parameter_count(shape), "given={} expected={}", all.size(),
                parameter_count(shape));
  struct Source {
    Tensor tensor;
    int layer;
  };
  std::vector<std::pair<std::string, StoredTensor>> tensors;
  std::vector<Source> sources;
  for (const NamedTensor& one : kNames)
    for (int layer = 0; layer < (tensor_info(one.tensor).per_layer ? shape.layers : 1); ++layer) {
      StoredTensor stored;
      stored.type = type;
      stored.type_name = type == ValueType::kFloat32 ? "F32" : type == ValueType::kBfloat16 ? "BF16" : "F16";
      stored.shape = stored_shape(shape, one.tensor);
      tensors.emplace_back(std::string(kPrefix) + stored_name(one.tensor, layer), std::move(stored));
      sources.push_back({one.tensor, layer});
    }
  OutputFile file("model", path);
  const std::string header = safetensors_header(tensors);
  file.write(std::as_bytes(std::span(header)));
  std::vector<float> portion;
  std::vector<std::byte> raw;
  for (const auto& [tensor, layer] : sources) {
    const auto [rows, columns] = rows_and_columns(shape, tensor);
    const std::span<const float> values =
        all.subspan(tensor_position(shape, tensor, layer), static_cast<std::size_t>(rows * columns));
    for (std::size_t done = 0; done < values.size(); done += kValuesAtOnce) {
      const std::size_t count = std::min(kValuesAtOnce, values.size() - done);
      portion.resize(count);
      for (std::size_t at = 0; at < count; ++at)
        portion[at] = named(tensor).transposed ? values[(done + at) % rows * columns + (done + at) / rows]
                                               : values[done + at];
      raw.resize(count * value_bytes(type));
      encode_values(type, portion, raw);
      file.write(raw);
    }
  }
  file.commit();
  write_json_file((std::filesystem::absolute(path).parent_path() / "config.json").string(),
                  config_of(shape, type));
}

}  // namespace tombolo::trainer
