#include "planner/model/model.h"

#include <gtest/gtest.h>

#include <cmath>

#include "base/error.h"

namespace tombolo::planner {
namespace {

Model llama(int layers, int hidden, int heads, int kv_heads, int feed_forward, int vocabulary) {
  Model model{"llama", layers, hidden, heads, 4096, vocabulary, 2, kv_heads, feed_forward};
  model.gated = true;
  model.learned_positions = model.tied_embeddings = model.biases = false;
  model.check();
  return model;
}

// The published numbers of parameters.
TEST(Model, CountsTheParametersOfKnownModelsExactly) {
  EXPECT_EQ((Model{"gpt2", 12, 768, 12, 1024, 50257, 2}).parameters(), 124'439'808u);
  EXPECT_EQ((Model{"gpt2-xl", 48, 1600, 25, 1024, 50257, 2}).parameters(), 1'557'611'200u);
  EXPECT_EQ(llama(32, 4096, 32, 0, 11008, 32000).parameters(), 6'738'415'616u);
  EXPECT_EQ(llama(80, 8192, 64, 8, 28672, 32000).parameters(), 68'976'648'192u);
  EXPECT_EQ(llama(32, 4096, 32, 8, 14336, 128256).parameters(), 8'030'261'248u);
}

TEST(Model, TensorParallelRanksTogetherHoldEachDividedParameterOnceAndEachReplicatedOneOftener) {
  for (const Model& model :
       {Model{"gpt2", 12, 768, 12, 1024, 50256, 2}, llama(2, 4096, 32, 8, 14336, 128256)})
    for (const int tensor : {1, 2, 4}) {
      const auto all = model.layer_parameters() +
                       static_cast<std::uint64_t>(tensor - 1) * model.replicated_layer_parameters();
      EXPECT_EQ(static_cast<std::uint64_t>(tensor) * model.layer_parameters(tensor), all) << tensor;
      EXPECT_EQ(static_cast<std::uint64_t>(tensor) * model.token_embedding_parameters(tensor),
                model.token_embedding_parameters());
    }
}

TEST(Model, FewerHeadsOfKeysAndValuesThanRanksAreCopied) {
  const Model model = llama(1, 4096, 32, 8, 14336, 128256);
  const std::uint64_t shared = 2 * 4096 * 128;  // one head of keys and one of values
  EXPECT_EQ(16 * model.layer_parameters(16),
            model.layer_parameters() + 15 * model.replicated_layer_parameters() + 8 * shared);
}

TEST(Model, AnUntiedProjectionIsHeldApartEvenOnASingleStage) {
  Model model{"x", 2, 64, 4, 32, 100, 4};
  const auto tied = model.parameters();
  model.tied_embeddings = false;
  EXPECT_EQ(model.parameters(), tied + model.token_embedding_parameters());
  EXPECT_EQ((model.layers_parameters(0, 1) + model.end_parameters(true, false)) +
                (model.layers_parameters(0, 1) + model.end_parameters(false, true)),
            model.parameters());
}

TEST(Model, ComesFromAShortDescription) {
  const Model model = parse_model(
      "name=l,layers=2,hidden=4096,heads=32,kv_heads=8,feed_forward=14336,context=4096,vocabulary=99,bytes=2,"
      "gated=yes,learned_positions=no,tied_embeddings=no,biases=no");
  Model same = llama(2, 4096, 32, 8, 14336, 99);
  same.name = "l";
  EXPECT_EQ(model, same);
  EXPECT_THROW(parse_model("gated=maybe"), Error);
}

TEST(Model, RefusesHeadsOfKeysAndValuesThatDoNotDivideTheHeads) {
  Model model{"x", 2, 64, 4, 32, 100, 4, 3};
  try {
    model.check();
    FAIL();
  } catch (const Error& error) {
    EXPECT_NE(std::string_view(error.what()).find("kv_heads is 3"), std::string_view::npos);
  }
}

/// Llama 4 Maverick's text model, of which every second layer is a mixture (released configuration).
Model maverick() {
  Model model = llama(48, 5120, 40, 8, 16384, 202048);
  model.experts = 128;
  model.experts_per_token = 1;
  model.expert_feed_forward = model.shared_feed_forward = 8192;
  model.moe_every = 2;
  model.dense_first = 1;
  model.check();
  return model;
}

TEST(Model, CountsMixturesAmongDenseLayers) {
  const Model model = maverick();
  EXPECT_TRUE(model.mixed());
  EXPECT_EQ(model.mixtures(0, 48), 24);
  EXPECT_EQ(model.mlp_of(0), Mlp::kDense);
  EXPECT_EQ(model.mlp_of(1), Mlp::kMixture);
  EXPECT_NEAR(static_cast<double>(model.parameters()), 400e9, 1e9);
  EXPECT_NEAR(static_cast<double>(model.active_parameters()), 17e9, 0.3e9);
  for (const int every : {1, 2, 3, 5})
    for (const int dense : {0, 1, 4}) {
      Model one = model;
      one.moe_every = every;
      one.dense_first = dense;
      for (int first = 0; first < 12; ++first)
        for (int count = 0; count < 12; ++count) {
          int mixtures = 0;
          std::uint64_t parameters = 0;
          for (int layer = first; layer < first + count; ++layer) {
            mixtures += one.mlp_of(layer) == Mlp::kMixture;
            parameters += one.layer_parameters(2, one.mlp_of(layer), 4);
          }
          EXPECT_EQ(one.mixtures(first, count), mixtures)
              << every << ' ' << dense << ' ' << first << ' ' << count;
          EXPECT_EQ(one.layers_parameters(first, count, 2, 4), parameters);
        }
    }
}

TEST(Model, ATokenPassesThroughRouterItsExpertsAndTheSharedOne) {
  const Model model = maverick();
  const double h = 5120, s = 4096;
  const double attention = 2 * h * h + 2 * h * 8 * 128, mlp = 3 * h * 8192;
  EXPECT_DOUBLE_EQ(model.layer_forward_flops(Mlp::kMixture),
                   2 * s * (attention + 2 * mlp + h * 128) + 4 * s * s * h);
  EXPECT_DOUBLE_EQ(model.experts_forward_flops(), 2 * s * mlp);
  EXPECT_DOUBLE_EQ(model.layers_forward_flops(),
                   24 * (model.layer_forward_flops() + model.layer_forward_flops(Mlp::kMixture)));
  // Eight ranks divide the experts' matrices: 16 experts on each, and all else as before.
  EXPECT_EQ(model.layer_parameters(1, Mlp::kMixture) - model.layer_parameters(1, Mlp::kMixture, 8),
            112 * model.expert_parameters());
  EXPECT_EQ(model.expert_parameters(4), model.expert_parameters() / 4);
}

TEST(Model, HeadsMayHaveAWidthOfTheirOwn) {
  Model model = llama(48, 2048, 32, 4, 6144, 151936);
  const double usual = model.attention_core_flops();
  model.head_width = 128;
  model.check();
  EXPECT_EQ(model.attention_width(), 4096);
  EXPECT_DOUBLE_EQ(model.attention_core_flops(), 2 * usual);
  EXPECT_EQ(model.matrix_parameters() - 3u * 2048 * 6144, 2u * 2048 * 4096 + 2u * 2048 * 4 * 128);
}

TEST(Model, CountsLatentAttentionTermByTerm) {
  Model model = llama(61, 7168, 128, 0, 18432, 129280);
  model.head_width = 128;
  model.kv_rank = 512;
  model.query_rank = 1536;
  model.rotary_width = 64;
  model.check();
  const std::uint64_t h = 7168, n = 128, mlp = 3 * h * 18432;
  const std::uint64_t compress = h * (1536 + 512 + 64), expand = 1536 * n * 192 + 512 * n * 256;
  EXPECT_EQ(model.matrix_parameters() - mlp, compress + expand + n * 128 * h);
  EXPECT_EQ(model.layer_parameters(), model.matrix_parameters() + 2 * h + 1536 + 512);
  // Four ranks divide all but the matrices that compress, and the norms.
  EXPECT_EQ(model.layer_parameters(4), (mlp + expand + n * 128 * h) / 4 + compress + 2 * h + 1536 + 512);
  const double s = model.context;
  EXPECT_DOUBLE_EQ(model.attention_core_flops(), 2 * s * s * n * (192 + 128));
  EXPECT_DOUBLE_EQ(model.layer_forward_flops(),
                   2 * s * static_cast<double>(model.matrix_parameters()) + model.attention_core_flops());
  model.query_rank = 0;
  EXPECT_EQ(model.matrix_parameters() - mlp, h * n * 192 + h * 576 + 512 * n * 256 + n * 128 * h);
  model.value_width = 64;
  EXPECT_EQ(model.attention_width(), 128 * 64);
}

TEST(Model, SaysWhatContradictsItselfInLatentAttention) {
  const auto expect = [](std::string_view part, auto change) {
    Model model = llama(4, 64, 4, 0, 128, 99);
    model.head_width = 16;
    model.kv_rank = 8;
    model.rotary_width = 4;
    model.check();
    change(model);
    try {
      model.check();
      ADD_FAILURE() << "accepted, wanted: " << part;
    } catch (const Error& error) {
      EXPECT_NE(std::string(error.what()).find(part), std::string::npos) << error.what();
    }
  };
  expect("rotary_width is 4, which is of latent attention", [](Model& model) { model.kv_rank = 0; });
  expect("head_width is 0 and rotary_width 4", [](Model& model) { model.head_width = 0; });
  expect("kv_heads is 2, but latent attention", [](Model& model) { model.kv_heads = 2; });
  expect("with biases or learned positions", [](Model& model) { model.biases = true; });
  expect("query_rank is -1", [](Model& model) { model.query_rank = -1; });
}

TEST(Model, SaysWhatContradictsItselfInAMixture) {
  const auto refused = [](auto change) -> std::string {
    Model model = maverick();
    change(model);
    try {
      model.check();
    } catch (const Error& error) {
      return error.what();
    }
    return "accepted";
  };
  const auto expect = [&](std::string_view part, auto change) {
    const std::string why = refused(change);
    EXPECT_NE(why.find(part), std::string::npos) << why;
  };
  expect("experts is 1, expected at least 2", [](Model& model) { model.experts = 1; });
  expect("experts_per_token is 0, expected 1 to 128", [](Model& model) { model.experts_per_token = 0; });
  expect("experts_per_token is 129", [](Model& model) { model.experts_per_token = 129; });
  expect("moe_every is 0", [](Model& model) { model.moe_every = 0; });
  expect("dense_first is 48, expected 0 to 47", [](Model& model) { model.dense_first = 48; });
  expect("with biases", [](Model& model) { model.biases = true; });
  expect("experts_per_token is 1 where there are no experts", [](Model& model) { model.experts = 0; });
  expect("expert_imbalance is 0.5, expected 1 (even) to 128",
         [](Model& model) { model.expert_imbalance = 0.5; });
  expect("expert_imbalance is nan", [](Model& model) { model.expert_imbalance = NAN; });
  EXPECT_EQ(
      parse_model("experts=8,experts_per_token=2,expert_feed_forward=3,shared_feed_forward=4,moe_every=5,"
                  "dense_first=6,head_width=7")
          .dense_first,
      6);
}

TEST(Model, CountsBiasesOfQueriesKeysAndValuesAndNormsOfQueriesAndKeys) {
  Model model = parse_model("layers=2,hidden=64,heads=8,kv_heads=2,context=32,vocabulary=100,biases=no");
  const auto plain = model.layer_parameters(), shared = model.layer_parameters(2);
  const auto copied = model.replicated_layer_parameters();
  model.qkv_biases = true;
  EXPECT_EQ(model.layer_parameters() - plain, 8U * (8 + 2 * 2));
  EXPECT_EQ(model.layer_parameters(2) - shared, 8U * (4 + 2 * 1)) << "divided as the heads are";
  EXPECT_EQ(model.replicated_layer_parameters(), copied);
  model.qkv_biases = false;
  model.query_key_norms = true;
  EXPECT_EQ(model.layer_parameters(2) - shared, 2U * 8) << "every rank has them";
  EXPECT_EQ(model.replicated_layer_parameters() - copied, 2U * 8);
  EXPECT_EQ(model.layer_forward_flops(), parse_model("query_key_norms=no", model).layer_forward_flops());
}

TEST(Model, RefusesDetailsThatContradictTheRest) {
  const auto refused = [](const std::string& changes, std::string_view part) {
    Model model = parse_model("layers=2,hidden=64,heads=8,context=32,vocabulary=100," + changes);
    try {
      model.check();
      ADD_FAILURE() << changes;
    } catch (const Error& error) {
      EXPECT_NE(std::string(error.what()).find(part), std::string::npos) << error.what();
    }
  };
  refused("alibi=yes", "exclude each other");
  refused("learned_positions=no,rotary_base=-5", "rotary_base is -5, expected a number > 0");
  refused("rotary_share=0.5", "this model's are learned");
  refused("learned_positions=no,alibi=yes,rotary_scaling=8", "this model's are ALiBi");
  refused("learned_positions=no,rotary_share=1.5", "rotary_share is 1.5");
  refused("learned_positions=no,rotary_scaling=0.5", "rotary_scaling is 0.5");
  refused("gelu_gate=yes", "say gated too");
  refused("shared_norm=yes", "shared_norm is of models with parallel_mlp");
  refused("gated=yes,relu=yes", "relu is of models with MLPs without a gate");
  refused("layer_norm=yes", "layer_norm is of models with matrices without biases");
  refused("biases=no,layer_norm=yes,bare_layer_norm=yes", "bare_layer_norm is of models with");
  refused("biases=no,bare_qkv=yes", "bare_qkv is of models with matrices with biases");
  refused("local_layers=yes", "local_layers is of models with a window");
  refused("qkv_biases=yes", "say biases=no");
  refused("biases=no,learned_positions=no,kv_rank=8,head_width=8,rotary_width=4,query_key_norms=yes",
          "norms of its own");
  Model mixture = parse_model(
      "layers=2,hidden=64,heads=8,context=32,vocabulary=100,biases=no,experts=8,experts_per_token=4");
  const auto router = [&](const Router& wanted, std::string_view part) {
    Model model = mixture;
    model.router = wanted;
    try {
      model.check();
      ADD_FAILURE() << part;
    } catch (const Error& error) {
      EXPECT_NE(std::string(error.what()).find(part), std::string::npos) << error.what();
    }
  };
  router({.sigmoid = true, .all_scores = true}, "say one of the two");
  router({.expert_biases = true}, "say sigmoid too");
  router({.groups = 3, .groups_per_token = 1}, "a divisor of the 8 experts");
  router({.groups = 4, .groups_per_token = 3}, "a divisor of the 4 experts per token");
  router({.scale = 0}, "expected a number > 0");
  mixture.router = {.sigmoid = true, .expert_biases = true, .groups = 4, .groups_per_token = 2, .scale = 2.5};
  mixture.check();
}

}  // namespace
}  // namespace tombolo::planner
