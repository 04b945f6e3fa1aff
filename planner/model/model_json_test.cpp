#include "planner/model/model_json.h"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <random>

#include "base/error.h"
#include "base/randomized_test.h"

namespace tombolo::planner {
namespace {

Model read_back(const Json& json) {
  return parse_model(JsonDocument::parse(json.dump(), "model.json").root());
}

TEST(ModelJson, RandomModelsComeBack) {
  std::mt19937 random(test_seed());
  const auto below = [&](int count) { return std::uniform_int_distribution(0, count - 1)(random); };
  for (int round = 0; round < test_rounds(200); ++round) {
    Model model;
    model.name = "m" + std::to_string(below(1000));
    model.layers = 1 + below(100);
    model.heads = 4 * (1 + below(8));
    model.hidden = model.heads * (1 + below(64));
    model.context = 1 + below(4096);
    model.vocabulary = 1 + below(60000);
    model.bytes_per_value = 1 << below(4);
    // As given or as usual: what is usual is not written, and is read as such.
    if (below(2) == 0) model.kv_heads = model.heads / 4;
    if (below(2) == 0) model.feed_forward = 4 * model.hidden + 1 + below(100);
    model.gated = below(2) == 0;
    model.learned_positions = below(2) == 0;
    if (below(2) == 0) model.rotary_base = 1e4 * (1 + below(50));
    model.tied_embeddings = below(2) == 0;
    model.biases = below(2) == 0;
    if (below(2) == 0) model.head_width = 1 + below(200);
    if (!model.biases && below(2) == 0) {
      model.experts = 2 + below(60);
      model.experts_per_token = 1 + below(model.experts);
      if (below(2) == 0) model.expert_feed_forward = 1 + below(1000);
      if (below(2) == 0) model.shared_feed_forward = 1 + below(1000);
      model.moe_every = 1 + below(3);
      model.dense_first = below(model.layers);
      if (below(2) == 0) model.expert_imbalance = 1 + below(8) / 8.0;
    }
    if (!model.biases && !model.learned_positions && below(2) == 0) {
      model.kv_heads = 0;
      model.head_width = 1 + below(200);
      model.kv_rank = 1 + below(1000);
      model.rotary_width = 1 + below(100);
      if (below(2) == 0) model.query_rank = 1 + below(1000);
      if (below(2) == 0) model.value_width = 1 + below(200);
    }
    if (!model.learned_positions) {
      model.alibi = !model.latent() && below(4) == 0;
      if (!model.alibi && below(2) == 0) model.rotary_share = (1 + below(4)) / 4.0;
      model.rotary_pairs = !model.alibi && below(2) == 0;
      if (!model.alibi && below(2) == 0) model.rotary_scaling = 1 + below(32);
    }
    model.gelu_gate = model.gated && below(2) == 0;
    model.qkv_biases = !model.biases && !model.latent() && below(2) == 0;
    model.query_key_norms = !model.latent() && below(2) == 0;
    if (below(2) == 0) model.window = 1 + below(2000);
    for (const Peculiarity one :
         {Peculiarity::kParallelMlp, Peculiarity::kHeadBiases, Peculiarity::kPostNorm})
      model.peculiarities.set(one, below(2) == 0);
    if (model.experts > 0) {
      model.router.sigmoid = below(2) == 0;
      (model.router.sigmoid ? model.router.expert_biases : model.router.all_scores) = below(2) == 0;
      if (below(2) == 0) model.router.groups = model.router.groups_per_token = 1;
      if (below(2) == 0) model.router.scale = 1 + below(16) / 2.0;
    }
    EXPECT_EQ(read_back(to_json(model)), model) << to_json(model).dump();
  }
}

TEST(ModelJson, WhatIsUsualIsNotWritten) {
  const Json json = to_json(Model{"gpt2", 12, 768, 12, 1024, 50257, 4});
  for (const char* field : {"kv_heads", "feed_forward", "gated", "learned_positions", "tied_embeddings",
                            "biases", "window", "peculiarities"})
    EXPECT_FALSE(json.contains(field)) << field;
}

TEST(ModelJson, KnowsEveryPeculiarityByItsName) {
  for (const PeculiarityTraits& one : all_peculiarities()) {
    EXPECT_EQ(peculiarity_from_name(one.name), one.peculiarity);
    EXPECT_FALSE(one.text.empty());
  }
  EXPECT_EQ(all_peculiarities().size(), static_cast<std::size_t>(Peculiarity::kScoreCaps) + 1);
  EXPECT_EQ(peculiarity_from_name("nobody's"), std::nullopt);
  Json json = to_json(Model{"gpt2", 12, 768, 12, 1024, 50257, 4});
  json["peculiarities"] = {"relu", "nobody's"};
  EXPECT_THROW(read_back(json), Error);
}

TEST(ModelJson, NamesFileLineAndField) {
  Json json = to_json(Model{"gpt2", 12, 768, 12, 1024, 50257, 4});
  const auto expect_refused = [](const Json& changed, const char* part) {
    try {
      read_back(changed);
      ADD_FAILURE() << part;
    } catch (const Error& error) {
      const std::string text = error.what();
      EXPECT_NE(text.find(part), std::string::npos) << text;
      EXPECT_EQ(text.find("model.json:1"), 0u) << text;
    }
  };
  Json changed = json;
  changed["depth"] = 3;
  expect_refused(changed, "depth");
  changed = json;
  changed.erase("hidden");
  expect_refused(changed, "hidden");
  changed = json;
  changed["heads"] = 7;
  expect_refused(changed, "not a multiple of heads 7");
  changed = json;
  changed["gated"] = 1;
  expect_refused(changed, "gated");
}

}  // namespace
}  // namespace tombolo::planner
