#include "planner/model/model.h"

#include <gtest/gtest.h>

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
  EXPECT_EQ(model.stage_parameters(1, true, false) + model.stage_parameters(1, false, true),
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

}  // namespace
}  // namespace tombolo::planner
