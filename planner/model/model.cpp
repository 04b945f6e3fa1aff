#include "planner/model/model.h"

#include <charconv>
#include <cmath>
#include <limits>

#include "base/error.h"

namespace tombolo::planner {

namespace {

std::uint64_t whole(int value) {
  return static_cast<std::uint64_t>(value);
}

std::uint64_t share(std::uint64_t all, int parts) {
  return (all + whole(parts) - 1) / whole(parts);
}

int parse_positive(std::string_view name, std::string_view text) {
  int value = 0;
  const auto [end, problem] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (problem != std::errc() || end != text.data() + text.size() || value <= 0)
    fail(Cause::kInvalidUsage, "model description: {} is \"{}\", expected a whole number from 1 to {}", name,
         text, std::numeric_limits<int>::max());
  return value;
}

bool parse_yes(std::string_view name, std::string_view text) {
  if (text != "yes" && text != "no")
    fail(Cause::kInvalidUsage, "model description: {} is \"{}\", expected yes or no", name, text);
  return text == "yes";
}

}  // namespace

std::uint64_t Model::matrix_parameters(int tensor) const noexcept {
  const std::uint64_t head = whole(hidden / heads), mine = share(whole(heads), tensor) * head;
  const std::uint64_t key_value = share(whole(key_value_heads()), tensor) * head;
  const std::uint64_t mlp = share(whole(inner()), tensor) * (gated ? 3 : 2);
  return whole(hidden) * (2 * mine + 2 * key_value + mlp);  // queries and output; keys and values; MLP
}

std::uint64_t Model::norm_parameters() const noexcept {
  return whole(hidden) * (biases ? 2 : 1);
}

std::uint64_t Model::replicated_layer_parameters() const noexcept {
  // The terms are two norms, and the biases of the outputs of attention and of the MLP, which are added after
  // the sum over ranks.
  return 2 * norm_parameters() + (biases ? 2 * whole(hidden) : 0);
}

std::uint64_t Model::layer_parameters(int tensor) const noexcept {
  std::uint64_t sum = matrix_parameters(tensor) + replicated_layer_parameters();
  if (!biases) return sum;
  const std::uint64_t head = whole(hidden / heads);
  sum += head * (share(whole(heads), tensor) + 2 * share(whole(key_value_heads()), tensor));
  return sum + share(whole(inner()), tensor) * (gated ? 2 : 1);
}

std::uint64_t Model::token_embedding_parameters(int tensor) const noexcept {
  return share(whole(vocabulary), tensor) * whole(hidden);
}

std::uint64_t Model::embedding_parameters(int tensor) const noexcept {
  return token_embedding_parameters(tensor) + (learned_positions ? whole(context) * whole(hidden) : 0);
}

std::uint64_t Model::parameters() const noexcept {
  return stage_parameters(layers, true, true);
}

std::uint64_t Model::stage_parameters(int stage_layers, bool first, bool last, int tensor) const noexcept {
  std::uint64_t sum = whole(stage_layers) * layer_parameters(tensor);
  if (first) sum += embedding_parameters(tensor);
  if (last) sum += norm_parameters();
  if (last && (!first || !tied_embeddings)) sum += token_embedding_parameters(tensor);
  return sum;
}

double Model::layer_forward_flops() const noexcept {
  return 2.0 * context * static_cast<double>(matrix_parameters(1)) + attention_core_flops();
}

double Model::attention_core_flops() const noexcept {
  return 4.0 * context * context * static_cast<double>(hidden);
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
  if (kv_heads < 0 || (kv_heads > 0 && (kv_heads > heads || heads % kv_heads != 0)))
    fail(Cause::kInvalidUsage,
         "model: kv_heads is {}, expected a divisor of heads {}; several heads share one of keys and values",
         kv_heads, heads);
  if (feed_forward < 0)
    fail(Cause::kInvalidUsage, "model: feed_forward is {}, expected a whole number > 0", feed_forward);
  if (bytes_per_value != 1 && bytes_per_value != 2 && bytes_per_value != 4 && bytes_per_value != 8)
    fail(Cause::kInvalidUsage, "model: bytes_per_value is {}, expected 1, 2, 4 or 8", bytes_per_value);
  if (head_width != 0 || experts != 0)
    fail(Cause::kUnsupported,
         "model: head_width is {} and experts is {}; the cost of other heads than hidden / heads wide and of "
         "mixtures of experts is not modelled yet, leave both 0",
         head_width, experts);
  // Beyond these limits sizes in bytes would not fit in 64 bits; the largest models today have less than a
  // thousandth of it.
  constexpr double kMostParameters = 1e15, kMostValues = 1e17;
  const double inside = feed_forward > 0 ? feed_forward : 4.0 * hidden;
  const double in_layers = 1.0 * layers * hidden * (4.0 * hidden + 3 * inside);
  if (const double all = in_layers + 1.0 * hidden * (1.0 * vocabulary + context); all > kMostParameters)
    fail(Cause::kInvalidUsage,
         "model: about {:.3g} parameters (layers {}, hidden {}, vocabulary {}); expected at most {:.0e}", all,
         layers, hidden, vocabulary, kMostParameters);
  if (const double values = 1.0 * layers * context * (hidden + inside + 1.0 * heads * context);
      values > kMostValues)
    fail(
        Cause::kInvalidUsage,
        "model: about {:.3g} activations per row (layers {}, hidden {}, context {}); expected at most {:.0e}",
        values, layers, hidden, context, kMostValues);
}

Model parse_model(std::string_view text, Model model) {
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
    else if (name == "kv_heads")
      model.kv_heads = parse_positive(name, value);
    else if (name == "feed_forward")
      model.feed_forward = parse_positive(name, value);
    else if (name == "bytes")
      model.bytes_per_value = parse_positive(name, value);
    else if (name == "gated")
      model.gated = parse_yes(name, value);
    else if (name == "learned_positions")
      model.learned_positions = parse_yes(name, value);
    else if (name == "tied_embeddings")
      model.tied_embeddings = parse_yes(name, value);
    else if (name == "biases")
      model.biases = parse_yes(name, value);
    else
      fail(
          Cause::kInvalidUsage,
          "model description \"{}\": unknown field \"{}\"; known are name, layers, hidden (or width), heads, "
          "kv_heads, feed_forward, context, vocabulary, bytes (per value), gated, learned_positions, "
          "tied_embeddings, biases",
          text, name);
  }
  return model;
}

}  // namespace tombolo::planner
