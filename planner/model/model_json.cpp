#include "planner/model/model_json.h"

#include <fmt/format.h>

#include <limits>
#include <nlohmann/json.hpp>

namespace tombolo::planner {

namespace {

Router parse_router(const JsonCursor& at) {
  at.only({"sigmoid", "all_scores", "expert_biases", "groups", "groups_per_token", "scale"});
  Router router;
  if (const auto field = at.optional("sigmoid")) router.sigmoid = field->boolean();
  if (const auto field = at.optional("all_scores")) router.all_scores = field->boolean();
  if (const auto field = at.optional("expert_biases")) router.expert_biases = field->boolean();
  constexpr int kMost = std::numeric_limits<int>::max();
  if (const auto field = at.optional("groups")) router.groups = static_cast<int>(field->integer(1, kMost));
  if (const auto field = at.optional("groups_per_token"))
    router.groups_per_token = static_cast<int>(field->integer(1, kMost));
  if (const auto field = at.optional("scale")) router.scale = field->positive_number();
  return router;
}

Json to_json(const Router& router) {
  Json json = Json::object();
  if (router.sigmoid) json["sigmoid"] = true;
  if (router.all_scores) json["all_scores"] = true;
  if (router.expert_biases) json["expert_biases"] = true;
  if (router.groups > 0) json["groups"] = router.groups;
  if (router.groups_per_token > 0) json["groups_per_token"] = router.groups_per_token;
  if (router.scale != 1) json["scale"] = router.scale;
  return json;
}

Peculiarities parse_peculiarities(const JsonCursor& at) {
  Peculiarities some;
  for (const JsonCursor& element : at.elements()) {
    const auto known = peculiarity_from_name(element.text());
    if (!known) element.reject(fmt::format("\"{}\" is no peculiarity of a model", element.text()));
    some.set(*known, true);
  }
  return some;
}

}  // namespace

Model parse_model(const JsonCursor& at) {
  at.only({"name",
           "layers",
           "hidden",
           "heads",
           "kv_heads",
           "feed_forward",
           "context",
           "vocabulary",
           "bytes_per_value",
           "gated",
           "learned_positions",
           "rotary_base",
           "tied_embeddings",
           "biases",
           "head_width",
           "experts",
           "experts_per_token",
           "expert_feed_forward",
           "shared_feed_forward",
           "moe_every",
           "dense_first",
           "expert_imbalance",
           "kv_rank",
           "query_rank",
           "rotary_width",
           "value_width",
           "rotary_share",
           "rotary_pairs",
           "rotary_scaling",
           "alibi",
           "gelu_gate",
           "qkv_biases",
           "query_key_norms",
           "window",
           "peculiarities",
           "router"});
  const auto whole = [](const JsonCursor& field) {
    return static_cast<int>(field.integer(1, std::numeric_limits<int>::max()));
  };
  Model model;
  if (const auto name = at.optional("name")) model.name = name->text();
  model.layers = whole(at.field("layers"));
  model.hidden = whole(at.field("hidden"));
  model.heads = whole(at.field("heads"));
  if (const auto field = at.optional("kv_heads")) model.kv_heads = whole(*field);
  if (const auto field = at.optional("feed_forward")) model.feed_forward = whole(*field);
  model.context = whole(at.field("context"));
  model.vocabulary = whole(at.field("vocabulary"));
  const auto count = [&](const char* name, int& value) {
    if (const auto field = at.optional(name)) value = whole(*field);
  };
  count("head_width", model.head_width);
  count("experts", model.experts);
  count("experts_per_token", model.experts_per_token);
  count("expert_feed_forward", model.expert_feed_forward);
  count("shared_feed_forward", model.shared_feed_forward);
  count("moe_every", model.moe_every);
  count("dense_first", model.dense_first);
  count("kv_rank", model.kv_rank);
  count("query_rank", model.query_rank);
  count("rotary_width", model.rotary_width);
  count("value_width", model.value_width);
  if (const auto field = at.optional("expert_imbalance")) model.expert_imbalance = field->positive_number();
  if (const auto field = at.optional("bytes_per_value")) model.bytes_per_value = whole(*field);
  if (const auto field = at.optional("gated")) model.gated = field->boolean();
  if (const auto field = at.optional("learned_positions")) model.learned_positions = field->boolean();
  if (const auto field = at.optional("rotary_base")) model.rotary_base = field->positive_number();
  if (const auto field = at.optional("tied_embeddings")) model.tied_embeddings = field->boolean();
  if (const auto field = at.optional("biases")) model.biases = field->boolean();
  if (const auto field = at.optional("rotary_share")) model.rotary_share = field->positive_number();
  if (const auto field = at.optional("rotary_pairs")) model.rotary_pairs = field->boolean();
  if (const auto field = at.optional("rotary_scaling")) model.rotary_scaling = field->positive_number();
  if (const auto field = at.optional("alibi")) model.alibi = field->boolean();
  if (const auto field = at.optional("gelu_gate")) model.gelu_gate = field->boolean();
  if (const auto field = at.optional("qkv_biases")) model.qkv_biases = field->boolean();
  if (const auto field = at.optional("query_key_norms")) model.query_key_norms = field->boolean();
  count("window", model.window);
  if (const auto field = at.optional("peculiarities")) model.peculiarities = parse_peculiarities(*field);
  if (const auto field = at.optional("router")) model.router = parse_router(*field);
  try {
    model.check();
  } catch (const Error& error) {
    at.reject(error.what());
  }
  return model;
}

Json to_json(const Model& model) {
  Json json = {{"name", model.name},
               {"layers", model.layers},
               {"hidden", model.hidden},
               {"heads", model.heads},
               {"context", model.context},
               {"vocabulary", model.vocabulary},
               {"bytes_per_value", model.bytes_per_value}};
  if (model.key_value_heads() != model.heads) json["kv_heads"] = model.kv_heads;
  if (model.inner() != 4 * model.hidden) json["feed_forward"] = model.feed_forward;
  if (model.gated) json["gated"] = true;
  if (!model.learned_positions) json["learned_positions"] = false;
  if (model.rotary_base > 0) json["rotary_base"] = model.rotary_base;
  if (!model.tied_embeddings) json["tied_embeddings"] = false;
  if (!model.biases) json["biases"] = false;
  if (model.head_width > 0) json["head_width"] = model.head_width;
  if (model.latent()) json["kv_rank"] = model.kv_rank;
  if (model.query_rank > 0) json["query_rank"] = model.query_rank;
  if (model.rotary_width > 0) json["rotary_width"] = model.rotary_width;
  if (model.value_width > 0) json["value_width"] = model.value_width;
  if (model.rotary_share != 1) json["rotary_share"] = model.rotary_share;
  if (model.rotary_pairs) json["rotary_pairs"] = true;
  if (model.rotary_scaling > 0) json["rotary_scaling"] = model.rotary_scaling;
  if (model.alibi) json["alibi"] = true;
  if (model.gelu_gate) json["gelu_gate"] = true;
  if (model.qkv_biases) json["qkv_biases"] = true;
  if (model.query_key_norms) json["query_key_norms"] = true;
  if (model.window > 0) json["window"] = model.window;
  for (const PeculiarityTraits& one : all_peculiarities())
    if (model.has(one.peculiarity)) json["peculiarities"].push_back(one.name);
  if (model.router != Router{}) json["router"] = to_json(model.router);
  if (model.experts == 0) return json;
  json["experts"] = model.experts;
  json["experts_per_token"] = model.experts_per_token;
  if (model.expert_feed_forward > 0) json["expert_feed_forward"] = model.expert_feed_forward;
  if (model.shared_feed_forward > 0) json["shared_feed_forward"] = model.shared_feed_forward;
  if (model.moe_every > 1) json["moe_every"] = model.moe_every;
  if (model.dense_first > 0) json["dense_first"] = model.dense_first;
  if (model.expert_imbalance != 1) json["expert_imbalance"] = model.expert_imbalance;
  return json;
}

}  // namespace tombolo::planner
