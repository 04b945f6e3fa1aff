#include "planner/model/model.h"

#include <charconv>
#include <cmath>
#include <limits>
#include <tuple>
#include <utility>

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

/// Attention to all tokens where the text is "no" or "0"; then no layer has a window of its own either.
void set_window(Model& model, std::string_view text) {
  model.window = text == "no" || text == "0" ? 0 : parse_positive("window", text);
  if (model.window == 0) model.peculiarities.set(Peculiarity::kLocalLayers, false);
}

std::string names_of_peculiarities() {
  std::string names;
  for (const PeculiarityTraits& one : all_peculiarities())
    names.append(names.empty() ? "" : ", ").append(one.name);
  return names;
}

/// Refuses mixtures that contradict themselves.
void check_experts(const Model& model) {
  if (model.experts == 0) {
    for (const auto& [field, value, usual] :
         {std::tuple("experts_per_token", model.experts_per_token, 0),
          std::tuple("expert_feed_forward", model.expert_feed_forward, 0),
          std::tuple("shared_feed_forward", model.shared_feed_forward, 0),
          std::tuple("moe_every", model.moe_every, 1), std::tuple("dense_first", model.dense_first, 0)})
      if (value != usual)
        fail(Cause::kInvalidUsage,
             "model: {} is {} where there are no experts; leave it out, or say how many experts a layer has",
             field, value);
    if (model.router != Router{})
      fail(Cause::kInvalidUsage,
           "model: a router is described where there are no experts; leave it out, or say how many experts a "
           "layer has");
    if (model.expert_imbalance != 1)
      fail(
          Cause::kInvalidUsage,
          "model: expert_imbalance is {} where there are no experts; leave it out, or say how many experts a "
          "layer has",
          model.expert_imbalance);
    return;
  }
  // All tokens on one of the parts of the experts is the most that there can be.
  if (!(model.expert_imbalance >= 1 && model.expert_imbalance <= model.experts))
    fail(
        Cause::kInvalidUsage,
        "model: expert_imbalance is {}, expected 1 (even) to {}: the most tokens that any of the ranks which "
        "divide the experts gets, over their mean",
        model.expert_imbalance, model.experts);
  if (model.experts < 2)
    fail(Cause::kInvalidUsage, "model: experts is {}, expected at least 2 (or none)", model.experts);
  if (model.experts_per_token < 1 || model.experts_per_token > model.experts)
    fail(Cause::kInvalidUsage,
         "model: experts_per_token is {}, expected 1 to {}, for so many experts a layer has",
         model.experts_per_token, model.experts);
  for (const auto& [field, value] : {std::pair("expert_feed_forward", model.expert_feed_forward),
                                     std::pair("shared_feed_forward", model.shared_feed_forward)})
    if (value < 0) fail(Cause::kInvalidUsage, "model: {} is {}, expected a whole number > 0", field, value);
  if (model.moe_every < 1)
    fail(Cause::kInvalidUsage, "model: moe_every is {}, expected at least 1", model.moe_every);
  if (model.dense_first < 0 || model.dense_first >= model.layers)
    fail(Cause::kInvalidUsage, "model: dense_first is {}, expected 0 to {}, so that some layer is a mixture",
         model.dense_first, model.layers - 1);
  if (model.biases)
    fail(Cause::kUnsupported,
         "model: a mixture of {} experts with biases, which no framework here trains; say biases=no",
         model.experts);
}

/// Refuses a router that contradicts itself or the number of experts.
void check_router(const Model& model) {
  const Router& router = model.router;
  if (router.sigmoid && router.all_scores)
    fail(Cause::kInvalidUsage, "model: router: sigmoid has no softmax over all_scores; say one of the two");
  if (router.expert_biases && !router.sigmoid)
    fail(Cause::kUnsupported,
         "model: router: expert_biases without sigmoid, which no framework here trains; say sigmoid too");
  if (!(router.scale > 0))
    fail(Cause::kInvalidUsage, "model: router: scale is {}, expected a number > 0", router.scale);
  if (router.groups == 0 && router.groups_per_token == 0) return;
  if (router.groups < 1 || model.experts % router.groups != 0)
    fail(Cause::kInvalidUsage, "model: router: groups is {}, expected a divisor of the {} experts",
         router.groups, model.experts);
  if (router.groups_per_token < 1 || router.groups_per_token > router.groups ||
      model.experts_per_token % router.groups_per_token != 0)
    fail(Cause::kInvalidUsage,
         "model: router: groups_per_token is {}, expected at most the {} groups, and a divisor of the {} "
         "experts "
         "per token",
         router.groups_per_token, router.groups, model.experts_per_token);
}

/// Refuses what is said of positions, biases, norms and gates where the rest of the model contradicts it.
void check_details(const Model& model) {
  if (!(model.rotary_base >= 0))
    fail(Cause::kInvalidUsage,
         "model: rotary_base is {}, expected a number > 0, or 0 for the framework's default",
         model.rotary_base);
  if (!(model.rotary_share > 0 && model.rotary_share <= 1))
    fail(Cause::kInvalidUsage, "model: rotary_share is {}, expected more than 0 and at most 1",
         model.rotary_share);
  if (model.rotary_scaling != 0 && !(model.rotary_scaling >= 1))
    fail(Cause::kInvalidUsage, "model: rotary_scaling is {}, expected a factor of at least 1, or 0 for none",
         model.rotary_scaling);
  const bool rotary = model.rotary_share != 1 || model.rotary_pairs || model.rotary_scaling != 0;
  if (rotary && (model.learned_positions || model.alibi))
    fail(Cause::kInvalidUsage,
         "model: rotary_share, rotary_pairs and rotary_scaling are of rotary positions, and this model's are "
         "{}; "
         "leave them out",
         model.alibi ? "ALiBi" : "learned");
  if (model.alibi && model.learned_positions)
    fail(Cause::kInvalidUsage,
         "model: alibi and learned_positions exclude each other; say which the model has");
  if (model.alibi && model.latent())
    fail(Cause::kInvalidUsage, "model: latent attention (kv_rank {}) has rotary positions; leave alibi out",
         model.kv_rank);
  if (model.gelu_gate && !model.gated)
    fail(Cause::kInvalidUsage, "model: gelu_gate is of gated MLPs; say gated too, or leave it out");
  if (model.window < 0)
    fail(Cause::kInvalidUsage, "model: window is {}, expected tokens, or 0", model.window);
  const auto needs = [&](Peculiarity one, bool other, std::string_view what) {
    for (const PeculiarityTraits& known : all_peculiarities())
      if (known.peculiarity == one && model.has(one) && !other)
        fail(Cause::kInvalidUsage, "model: {} is of models with {}; say these too, or {}=no", known.name,
             what, known.name);
  };
  needs(Peculiarity::kSharedNorm, model.has(Peculiarity::kParallelMlp), "parallel_mlp");
  needs(Peculiarity::kRelu, !model.gated, "MLPs without a gate (gated=no)");
  needs(Peculiarity::kLayerNorm, !model.biases, "matrices without biases (biases=no)");
  needs(Peculiarity::kBareLayerNorm, !model.biases && !model.has(Peculiarity::kLayerNorm),
        "matrices without biases (biases=no) and no layer_norm");
  needs(Peculiarity::kBareQkv, model.biases, "matrices with biases (biases=yes)");
  needs(Peculiarity::kBareAttention, model.biases, "matrices with biases (biases=yes)");
  needs(Peculiarity::kLocalLayers, model.window > 0, "a window");
  if (model.qkv_biases && model.biases)
    fail(Cause::kInvalidUsage,
         "model: qkv_biases is said where all matrices have biases; leave it out, or say biases=no");
  if (model.latent() && (model.qkv_biases || model.query_key_norms))
    fail(Cause::kInvalidUsage,
         "model: latent attention (kv_rank {}) has norms of its own and no biases; leave qkv_biases and "
         "query_key_norms out",
         model.kv_rank);
}

/// Refuses latent attention that contradicts itself, and its fields without it.
void check_latent(const Model& model) {
  for (const auto& [field, value] :
       {std::pair("kv_rank", model.kv_rank), std::pair("query_rank", model.query_rank),
        std::pair("rotary_width", model.rotary_width), std::pair("value_width", model.value_width)}) {
    if (value < 0) fail(Cause::kInvalidUsage, "model: {} is {}, expected a whole number > 0", field, value);
    if (!model.latent() && value > 0)
      fail(Cause::kInvalidUsage,
           "model: {} is {}, which is of latent attention; leave it out, or say with kv_rank to how many "
           "values "
           "keys and values are compressed",
           field, value);
  }
  if (!model.latent()) return;
  if (model.head_width == 0 || model.rotary_width == 0)
    fail(Cause::kInvalidUsage,
         "model: head_width is {} and rotary_width {}; of latent attention (kv_rank {}) say how many values "
         "of a "
         "head's query and key positions leave as they are, and how many they turn",
         model.head_width, model.rotary_width, model.kv_rank);
  if (model.kv_heads != 0 && model.kv_heads != model.heads)
    fail(Cause::kInvalidUsage,
         "model: kv_heads is {}, but latent attention (kv_rank {}) makes keys and values for each of the {} "
         "heads; "
         "leave kv_heads out",
         model.kv_heads, model.kv_rank, model.heads);
  if (model.biases || model.learned_positions)
    fail(Cause::kUnsupported,
         "model: latent attention (kv_rank {}) with biases or learned positions, which no framework here "
         "trains; "
         "say biases=no and learned_positions=no",
         model.kv_rank);
}

double parse_number(std::string_view name, std::string_view text) {
  double value = 0;
  const auto [end, problem] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (problem != std::errc() || end != text.data() + text.size() || !std::isfinite(value))
    fail(Cause::kInvalidUsage, "model description: {} is \"{}\", expected a number", name, text);
  return value;
}

bool parse_yes(std::string_view name, std::string_view text) {
  if (text != "yes" && text != "no")
    fail(Cause::kInvalidUsage, "model description: {} is \"{}\", expected yes or no", name, text);
  return text == "yes";
}

}  // namespace

int Model::mixtures(int first, int count) const noexcept {
  if (experts == 0) return 0;
  // Of the layers before `end` these are mixtures.
  const auto before = [&](int end) {
    return end <= dense_first ? 0 : (end - dense_first + moe_every - 1) / moe_every;
  };
  return before(first + count) - before(first);
}

std::uint64_t Model::expert_parameters(int tensor) const noexcept {
  return whole(hidden) * share(whole(expert_inner()), tensor) * (gated ? 3 : 2);
}

std::uint64_t Model::matrix_parameters(int tensor, Mlp mlp, int expert_parallel) const noexcept {
  const std::uint64_t mine = share(whole(heads), tensor);
  const std::uint64_t key_value = share(whole(key_value_heads()), tensor);
  const int always = mlp == Mlp::kDense ? inner() : shared_feed_forward;
  // The terms are queries; keys and values; the output; the MLP that every token takes; experts.
  const std::uint64_t queries =
      mine * whole(query_head()) * whole(latent() && query_rank > 0 ? query_rank : hidden);
  const std::uint64_t keys_values = latent() ? mine * whole(head() + value_head()) * whole(kv_rank)
                                             : 2 * key_value * whole(head()) * whole(hidden);
  std::uint64_t sum =
      compression_parameters() + queries + keys_values +
      whole(hidden) * (mine * whole(value_head()) + share(whole(always), tensor) * (gated ? 3 : 2));
  if (mlp == Mlp::kMixture) sum += whole(experts / expert_parallel) * expert_parameters(tensor);
  return sum;
}

std::uint64_t Model::norm_parameters() const noexcept {
  return whole(hidden) * (biases || has(Peculiarity::kLayerNorm) ? 2 : 1);
}

std::uint64_t Model::replicated_layer_parameters(Mlp mlp) const noexcept {
  // The terms are the norms, those of queries and keys, and those of what is compressed; the matrices that
  // compress; the biases of the outputs of attention and of the MLP, which are added after the sum over
  // ranks; and the router.
  const int outputs = !biases ? 0 : has(Peculiarity::kBareAttention) ? 1 : 2;
  return (has(Peculiarity::kSharedNorm) ? 1 : 2) * norm_parameters() +
         (query_key_norms ? 2 * whole(head()) : 0) + whole(query_rank) + whole(kv_rank) +
         compression_parameters() + whole(outputs) * whole(hidden) +
         (mlp == Mlp::kMixture ? whole(hidden) * whole(experts) : 0);
}

std::uint64_t Model::compression_parameters() const noexcept {
  return whole(hidden) * whole(compressed_width());
}

std::uint64_t Model::layer_parameters(int tensor, Mlp mlp, int expert_parallel) const noexcept {
  // The matrices that compress are in both.
  std::uint64_t sum = matrix_parameters(tensor, mlp, expert_parallel) + replicated_layer_parameters(mlp) -
                      compression_parameters();
  const bool bare = has(Peculiarity::kBareQkv) || has(Peculiarity::kBareAttention);
  if ((biases && !bare) || qkv_biases)
    sum += whole(head()) * (share(whole(heads), tensor) + 2 * share(whole(key_value_heads()), tensor));
  if (!biases) return sum;
  return sum + share(whole(inner()), tensor) * (gated ? 2 : 1);
}

std::uint64_t Model::layers_parameters(int first, int count, int tensor, int expert_parallel) const noexcept {
  const std::uint64_t mixed_ones = whole(mixtures(first, count)), dense = whole(count) - mixed_ones;
  std::uint64_t sum = dense * layer_parameters(tensor);
  if (mixed_ones > 0) sum += mixed_ones * layer_parameters(tensor, Mlp::kMixture, expert_parallel);
  return sum;
}

std::uint64_t Model::token_embedding_parameters(int tensor) const noexcept {
  return share(whole(vocabulary), tensor) * whole(hidden);
}

std::uint64_t Model::embedding_parameters(int tensor) const noexcept {
  return token_embedding_parameters(tensor) + (learned_positions ? whole(context) * whole(hidden) : 0) +
         (has(Peculiarity::kEmbeddingNorm) ? norm_parameters() : 0);
}

std::uint64_t Model::parameters() const noexcept {
  return layers_parameters(0, layers) + end_parameters(true, true);
}

std::uint64_t Model::active_parameters() const noexcept {
  return parameters() - whole(mixtures(0, layers)) * whole(experts - experts_per_token) * expert_parameters();
}

std::uint64_t Model::end_parameters(bool first, bool last, int tensor) const noexcept {
  std::uint64_t sum = 0;
  if (first) sum += embedding_parameters(tensor);
  if (last) sum += norm_parameters();
  if (last && has(Peculiarity::kHeadBiases)) sum += share(whole(vocabulary), tensor);
  if (last && (!first || !tied_embeddings)) sum += token_embedding_parameters(tensor);
  return sum;
}

double Model::layer_forward_flops(Mlp mlp) const noexcept {
  if (mlp == Mlp::kDense)
    return 2.0 * context * static_cast<double>(matrix_parameters(1)) + attention_core_flops();
  const std::uint64_t always = matrix_parameters(1, mlp, experts) - expert_parameters();
  const double scores = static_cast<double>(hidden) * experts;
  return 2.0 * context * (static_cast<double>(always) + scores) + experts_forward_flops() +
         attention_core_flops();
}

double Model::layers_forward_flops() const noexcept {
  const int mixed_ones = mixtures(0, layers);
  double sum = (layers - mixed_ones) * layer_forward_flops();
  if (mixed_ones > 0) sum += mixed_ones * layer_forward_flops(Mlp::kMixture);
  return sum;
}

double Model::experts_forward_flops() const noexcept {
  return 2.0 * context * experts_per_token * static_cast<double>(expert_parameters());
}

double Model::attention_core_flops() const noexcept {
  return 2.0 * context * context * (static_cast<double>(query_width()) + attention_width());
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
  if (head_width < 0)
    fail(Cause::kInvalidUsage, "model: head_width is {}, expected a whole number > 0", head_width);
  if (head_width == 0 && hidden % heads != 0)
    fail(Cause::kInvalidUsage,
         "model: hidden {} is not a multiple of heads {}; each head takes hidden / heads values, unless "
         "head_width says how many",
         hidden, heads);
  if (kv_heads < 0 || (kv_heads > 0 && (kv_heads > heads || heads % kv_heads != 0)))
    fail(Cause::kInvalidUsage,
         "model: kv_heads is {}, expected a divisor of heads {}; several heads share one of keys and values",
         kv_heads, heads);
  if (feed_forward < 0)
    fail(Cause::kInvalidUsage, "model: feed_forward is {}, expected a whole number > 0", feed_forward);
  if (bytes_per_value != 1 && bytes_per_value != 2 && bytes_per_value != 4 && bytes_per_value != 8)
    fail(Cause::kInvalidUsage, "model: bytes_per_value is {}, expected 1, 2, 4 or 8", bytes_per_value);
  check_experts(*this);
  check_router(*this);
  check_latent(*this);
  check_details(*this);
  // Beyond these limits sizes in bytes would not fit in 64 bits; the largest models today have less than a
  // thousandth of it.
  constexpr double kMostParameters = 1e15, kMostValues = 1e17;
  const double inside = feed_forward > 0 ? feed_forward : 4.0 * hidden;
  const double in_experts = 1.0 * experts * expert_inner() + shared_feed_forward;
  const double in_heads = 1.0 * heads * (2.0 * head() + rotary_width + value_head());
  const double in_layers =
      1.0 * layers *
      (1.0 * hidden * (3 * (inside + in_experts) + 1.0 * query_rank + kv_rank + rotary_width) +
       in_heads * (2.0 * hidden + query_rank + kv_rank));
  if (const double all = in_layers + 1.0 * hidden * (1.0 * vocabulary + context); all > kMostParameters)
    fail(Cause::kInvalidUsage,
         "model: about {:.3g} parameters (layers {}, hidden {}, vocabulary {}); expected at most {:.0e}", all,
         layers, hidden, vocabulary, kMostParameters);
  if (const double values = 1.0 * layers * context *
                            (hidden + inside + in_heads + 1.0 * heads * context +
                             1.0 * experts_per_token * (hidden + expert_inner()) * expert_imbalance +
                             shared_feed_forward + experts);
      values > kMostValues)
    fail(
        Cause::kInvalidUsage,
        "model: about {:.3g} activations per row (layers {}, hidden {}, context {}); expected at most {:.0e}",
        values, layers, hidden, context, kMostValues);
}

Model parse_model(std::string_view text, Model model) {
  std::string_view rest = text;
  const int experts = model.experts, experts_per_token = model.experts_per_token;
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
    else if (name == "head_width")
      model.head_width = parse_positive(name, value);
    else if (name == "experts")
      model.experts = parse_positive(name, value);
    else if (name == "experts_per_token")
      model.experts_per_token = parse_positive(name, value);
    else if (name == "expert_feed_forward")
      model.expert_feed_forward = parse_positive(name, value);
    else if (name == "shared_feed_forward")
      model.shared_feed_forward = parse_positive(name, value);
    else if (name == "moe_every")
      model.moe_every = parse_positive(name, value);
    else if (name == "dense_first")
      model.dense_first = parse_positive(name, value);
    else if (name == "kv_rank")
      model.kv_rank = parse_positive(name, value);
    else if (name == "query_rank")
      model.query_rank = parse_positive(name, value);
    else if (name == "rotary_width")
      model.rotary_width = parse_positive(name, value);
    else if (name == "value_width")
      model.value_width = parse_positive(name, value);
    else if (name == "rotary_base")
      model.rotary_base = parse_number(name, value);
    else if (name == "rotary_share")
      model.rotary_share = parse_number(name, value);
    else if (name == "rotary_scaling")
      model.rotary_scaling = parse_number(name, value);
    else if (name == "expert_imbalance")
      model.expert_imbalance = parse_number(name, value);
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
    else if (name == "qkv_biases")
      model.qkv_biases = parse_yes(name, value);
    else if (name == "query_key_norms")
      model.query_key_norms = parse_yes(name, value);
    else if (name == "rotary_pairs")
      model.rotary_pairs = parse_yes(name, value);
    else if (name == "alibi")
      model.alibi = parse_yes(name, value);
    else if (name == "gelu_gate")
      model.gelu_gate = parse_yes(name, value);
    else if (name == "window")
      set_window(model, value);
    else if (const auto peculiarity = peculiarity_from_name(name))
      model.peculiarities.set(*peculiarity, parse_yes(name, value));
    else
      fail(
          Cause::kInvalidUsage,
          "model description \"{}\": unknown field \"{}\"; known are name, layers, hidden (or width), heads, "
          "kv_heads, head_width, feed_forward, context, vocabulary, bytes (per value), experts, "
          "experts_per_token, expert_feed_forward, shared_feed_forward, moe_every, dense_first, "
          "expert_imbalance, kv_rank, query_rank, rotary_width, value_width, rotary_base, rotary_share, "
          "rotary_scaling, gated, learned_positions, tied_embeddings, biases, qkv_biases, query_key_norms, "
          "rotary_pairs, alibi, gelu_gate, window, and the peculiarities {}",
          text, name, names_of_peculiarities());
  }
  // Text has no field for a router's groups, so that groups of other experts could not be mended.
  Router& router = model.router;
  const bool counted = model.experts != experts || model.experts_per_token != experts_per_token;
  if (counted && router.groups > 0 && router.groups_per_token > 0 &&
      (model.experts % router.groups != 0 || model.experts_per_token % router.groups_per_token != 0))
    router.groups = router.groups_per_token = 0;
  return model;
}

}  // namespace tombolo::planner
