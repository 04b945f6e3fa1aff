#include "planner/model/model_json.h"

#include <limits>
#include <nlohmann/json.hpp>

namespace tombolo::planner {

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
           "value_width"});
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
