#include "planner/model.h"

#include <charconv>
#include <cmath>
#include <limits>

#include "base/error.h"

namespace tombolo::planner {

namespace {

std::uint64_t square(int value) {
  return static_cast<std::uint64_t>(value) * static_cast<std::uint64_t>(value);
}

int parse_positive(std::string_view name, std::string_view text) {
  int value = 0;
  const auto [end, problem] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (problem != std::errc() || end != text.data() + text.size() || value <= 0)
    fail(Cause::kInvalidUsage, "model description: {} is \"{}\", expected a whole number from 1 to {}", name,
         text, std::numeric_limits<int>::max());
  return value;
}

}  // namespace

std::uint64_t Model::layer_parameters() const noexcept {
  // qkv 3H^2 + 3H, projection H^2 + H, MLP 4H^2 + 4H and 4H^2 + H, two norms of 2H each.
  return 12 * square(hidden) + 13 * static_cast<std::uint64_t>(hidden);
}

std::uint64_t Model::token_embedding_parameters() const noexcept {
  return static_cast<std::uint64_t>(vocabulary) * static_cast<std::uint64_t>(hidden);
}

std::uint64_t Model::embedding_parameters() const noexcept {
  return token_embedding_parameters() +
         static_cast<std::uint64_t>(context) * static_cast<std::uint64_t>(hidden);
}

std::uint64_t Model::parameters() const noexcept {
  return static_cast<std::uint64_t>(layers) * layer_parameters() + embedding_parameters() +
         final_norm_parameters();
}

std::uint64_t Model::stage_parameters(int stage_layers, bool first, bool last) const noexcept {
  std::uint64_t sum = static_cast<std::uint64_t>(stage_layers) * layer_parameters();
  if (first) sum += embedding_parameters();
  if (last) sum += final_norm_parameters();
  if (last && !first) sum += token_embedding_parameters();
  return sum;
}

double Model::layer_forward_flops() const noexcept {
  const double s = context, h = hidden;
  return 24.0 * s * h * h + 4.0 * s * s * h;
}

double Model::head_forward_flops() const noexcept {
  return 2.0 * context * static_cast<double>(hidden) * vocabulary;
}

double Model::boundary_bytes() const noexcept {
  return static_cast<double>(context) * hidden * bytes_per_value;
}

void Model::check() const {
  const std::pair<const char*, int> fields[] = {{"layers", layers},
                                                {"hidden", hidden},
                                                {"heads", heads},
                                                {"context", context},
                                                {"vocabulary", vocabulary}};
  for (const auto& [field, value] : fields)
    if (value <= 0) fail(Cause::kInvalidUsage, "model: {} is {}, expected a whole number > 0", field, value);
  if (hidden % heads != 0)
    fail(Cause::kInvalidUsage,
         "model: hidden {} is not a multiple of heads {}; each head takes hidden / heads values", hidden,
         heads);
  if (bytes_per_value != 1 && bytes_per_value != 2 && bytes_per_value != 4 && bytes_per_value != 8)
    fail(Cause::kInvalidUsage, "model: bytes_per_value is {}, expected 1, 2, 4 or 8", bytes_per_value);
}

Model parse_model(std::string_view text) {
  Model model;
  std::string_view rest = text;
  while (!rest.empty()) {
    const auto comma = rest.find(',');
    const std::string_view item = rest.substr(0, comma);
    rest = comma == std::string_view::npos ? std::string_view{} : rest.substr(comma + 1);
    const auto equals = item.find('=');
    if (equals == std::string_view::npos)
      fail(Cause::kInvalidUsage, "model description \"{}\": \"{}\" is not name=value", text, item);
    const std::string_view name = item.substr(0, equals), value = item.substr(equals + 1);
    if (name == "name")
      model.name = value;
    else if (name == "layers")
      model.layers = parse_positive(name, value);
    else if (name == "hidden" || name == "width")
      model.hidden = parse_positive(name, value);
    else if (name == "heads")
      model.heads = parse_positive(name, value);
    else if (name == "context")
      model.context = parse_positive(name, value);
    else if (name == "vocabulary")
      model.vocabulary = parse_positive(name, value);
    else if (name == "bytes")
      model.bytes_per_value = parse_positive(name, value);
    else
      fail(
          Cause::kInvalidUsage,
          "model description \"{}\": unknown field \"{}\"; known are name, layers, hidden (or width), heads, "
          "context, vocabulary, bytes (per value)",
          text, name);
  }
  return model;
}

}  // namespace tombolo::planner
