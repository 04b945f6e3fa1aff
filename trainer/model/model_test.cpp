#include "trainer/model/model.h"

#include <gtest/gtest.h>

#include "trainer/testing/expect_refusal.h"

namespace tombolo::trainer {
namespace {

Shape five_layers() {
  Shape shape;
  shape.context = 16;
  shape.padded_vocabulary = 256;
  shape.layers = 5;
  shape.heads = 2;
  shape.width = 10;
  return shape;
}

TEST(Model, CountsParametersAsThePlannerDoes) {
  const Shape shape = five_layers();
  EXPECT_EQ(parameter_count(shape), to_planner_model(shape).parameters());
}

TEST(Model, ComesBackFromThePlannersDescription) {
  EXPECT_EQ(to_shape(to_planner_model(five_layers())), five_layers());
}

TEST(Model, PadsTheVocabularyToAMultipleOf128) {
  EXPECT_EQ(padded_vocabulary(1), 128);
  EXPECT_EQ(padded_vocabulary(128), 128);
  EXPECT_EQ(padded_vocabulary(129), 256);
}

TEST(Model, OfAnotherArchitectureIsRefusedByWhatTheTrainerLacks) {
  const auto refuses = [](auto change, const char* word) {
    planner::Model model = to_planner_model(five_layers());
    change(model);
    test::expect_refusal([&] { to_shape(model); }, {word}, Cause::kUnsupported);
  };
  refuses([](auto& model) { model.kv_heads = 1; }, "kv_heads 1");
  refuses([](auto& model) { model.feed_forward = 7; }, "feed_forward 7");
  refuses([](auto& model) { model.gated = true; }, "gated");
  refuses([](auto& model) { model.learned_positions = false; }, "rotary");
  refuses([](auto& model) { model.tied_embeddings = false; }, "output projection");
  refuses([](auto& model) { model.biases = false; }, "no biases");
  refuses([](auto& model) { model.query_key_norms = true; }, "norms of queries");
  refuses([](auto& model) { model.head_width = 7; }, "head_width 7");
  refuses([](auto& model) { model.bytes_per_value = 2; }, "fp32");
}

TEST(Model, WithANumberOutOfRangeIsRefusedByThatNumber) {
  const auto refuses = [](auto change, std::initializer_list<const char*> words) {
    Shape shape = five_layers();
    change(shape);
    test::expect_refusal([&] { shape.check(); }, words);
  };
  refuses([](Shape& shape) { shape.context = 0; }, {"context is 0"});
  refuses([](Shape& shape) { shape.padded_vocabulary = 255; }, {"padded vocabulary is 255", "256"});
  refuses([](Shape& shape) { shape.heads = 3; }, {"width 10", "heads 3"});
}

}  // namespace
}  // namespace tombolo::trainer
