#include "trainer/cpu/cpu_stage.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <random>
#include <vector>

#include "base/error.h"
#include "base/randomized_test.h"
#include "compute/instruction_set.h"
#include "trainer/model/initial_values.h"
#include "trainer/testing/reference_model.h"

namespace tombolo::trainer {
namespace {

Shape small_shape(int layers = 2, int width = 24, int heads = 3, int context = 9) {
  Shape shape;
  shape.context = context;
  shape.vocabulary = 31;
  shape.padded_vocabulary = 32;
  shape.layers = layers;
  shape.heads = heads;
  shape.width = width;
  return shape;
}

std::vector<std::int32_t> random_tokens(std::size_t count, int vocabulary, unsigned seed) {
  std::mt19937 random(seed);
  std::vector<std::int32_t> tokens(count);
  for (auto& token : tokens) token = static_cast<std::int32_t>(random() % static_cast<unsigned>(vocabulary));
  return tokens;
}

StageOptions whole_model(const Shape& shape, int rows) {
  StageOptions options;
  options.shape = shape;
  options.layers = shape.layers;
  options.rows = rows;
  options.loss_scale = 1.0 / (rows * shape.context);
  return options;
}

/// The loss that one forward pass finds.
double loss_of(StageCompute& stage, std::span<const std::int32_t> tokens,
               std::span<const std::int32_t> targets) {
  stage.forward(0, tokens, targets, {});
  return stage.take_loss_sum();
}

/// Spreads the values so that no gradient is negligible.
void initialize_widely(const Shape& shape, CpuStage& stage) {
  initialize(shape, 5, stage.layout(), stage.parameters());
  for (const Slice& slice : stage.layout().slices())
    for (std::size_t at = 0; at < slice.elements; ++at) {
      float& value = stage.parameters()[slice.offset + at];
      value =
          (tensor_info(slice.tensor).matrix ? 4 * value : value) + 0.02F * static_cast<float>(at % 7) - 0.06F;
    }
}

TEST(CpuStage, LossAndGradientsAreThoseOfTheReferenceInDoublePrecision) {
  const Shape shape = small_shape();
  const auto tokens = random_tokens(2 * 9, shape.vocabulary, 1);
  const auto targets = random_tokens(2 * 9, shape.vocabulary, 2);
  auto stage = make_cpu_stage(whole_model(shape, 2));
  initialize_widely(shape, *stage);
  std::vector<double> parameters(parameter_count(shape));
  for (const Slice& slice : stage->layout().slices())
    std::ranges::copy(stage->parameters().subspan(slice.offset, slice.elements),
                      parameters.begin() + static_cast<std::ptrdiff_t>(slice.position));
  const auto loss = [&] { return test::reference_loss(shape, parameters, tokens, targets); };
  EXPECT_NEAR(loss_of(*stage, tokens, targets) / (2 * 9), loss(), 1e-5);

  stage->clear_gradients();
  stage->backward(0, tokens, {}, {});
  std::mt19937 random(test_seed(3));
  for (const Slice& slice : stage->layout().slices()) {
    const std::span<double> tensor = std::span(parameters).subspan(slice.position, slice.elements);
    const std::span<const float> gradient = stage->gradients().subspan(slice.offset, slice.elements);
    // Along random directions of each tensor; the central difference's own error is some 1e-9 with this step.
    for (int repeat = 0; repeat < 3; ++repeat) {
      const std::vector<double> before(tensor.begin(), tensor.end());
      std::vector<double> direction(slice.elements);
      double expected = 0, size = 0;
      for (std::size_t at = 0; at < slice.elements; ++at) {
        direction[at] = (random() & 1) != 0 ? 1.0 : -1.0;
        expected += direction[at] * static_cast<double>(gradient[at]);
        size += std::abs(static_cast<double>(gradient[at]));
      }
      const double step = 1e-5 / std::sqrt(static_cast<double>(slice.elements));
      const auto moved = [&](double by) {
        for (std::size_t at = 0; at < slice.elements; ++at) tensor[at] = before[at] + by * direction[at];
        return loss();
      };
      const double measured = (moved(step) - moved(-step)) / (2 * step);
      moved(0);
      EXPECT_NEAR(measured, expected, 1e-4 * std::abs(expected) + 1e-6 * size + 1e-7)
          << tensor_info(slice.tensor).name << " of layer " << slice.layer;
    }
  }
}

TEST(CpuStage, Bfloat16ProductsGiveNearlyTheSameLossAndGradients) {
  if (!compute::bfloat16_kernels()) GTEST_SKIP() << "this processor does not multiply bfloat16";
  const Shape shape = small_shape(3, 32, 2, 16);
  const auto tokens = random_tokens(2 * 16, shape.vocabulary, 1);
  const auto targets = random_tokens(2 * 16, shape.vocabulary, 2);
  const auto run = [&](compute::Precision precision, double* loss) {
    StageOptions options = whole_model(shape, 2);
    options.precision = precision;
    auto stage = make_cpu_stage(options);
    initialize_widely(shape, *stage);
    *loss = loss_of(*stage, tokens, targets) / (2 * 16);
    stage->backward(0, tokens, {}, {});
    return std::vector<float>(stage->gradients().begin(), stage->gradients().end());
  };
  double exact = 0, rounded = 0;
  const std::vector<float> expected = run(compute::Precision::kFloat32, &exact);
  const std::vector<float> found = run(compute::Precision::kBfloat16, &rounded);
  EXPECT_NE(rounded, exact) << "fp32 was used";
  EXPECT_NEAR(rounded, exact, 0.02 * exact);
  double dot = 0, squares = 0, expected_squares = 0;
  for (std::size_t at = 0; at < found.size(); ++at) {
    const auto one = static_cast<double>(found[at]), other = static_cast<double>(expected[at]);
    dot += one * other;
    squares += one * one;
    expected_squares += other * other;
  }
  EXPECT_GT(dot / std::sqrt(squares * expected_squares), 0.999);
  EXPECT_NEAR(std::sqrt(squares / expected_squares), 1, 0.01);
}

TEST(CpuStage, TwoStagesComputeWhatOneComputes) {
  const Shape shape = small_shape(3, 32, 2, 16);
  const auto tokens = random_tokens(2 * 16, shape.vocabulary, 1);
  const auto targets = random_tokens(2 * 16, shape.vocabulary, 2);
  auto whole = make_cpu_stage(whole_model(shape, 2));
  initialize(shape, 7, whole->layout(), whole->parameters());
  StageOptions options = whole_model(shape, 2);
  options.layers = 1;
  auto front = make_cpu_stage(options);
  options.first_layer = 1;
  options.layers = 2;
  auto back = make_cpu_stage(options);
  initialize(shape, 7, front->layout(), front->parameters());
  initialize(shape, 7, back->layout(), back->parameters());

  const double expected = loss_of(*whole, tokens, targets);
  whole->backward(0, tokens, {}, {});
  EXPECT_EQ(loss_of(*front, tokens, {}), 0.0);
  std::ranges::copy(front->output(0), back->input(0).begin());
  EXPECT_DOUBLE_EQ(loss_of(*back, {}, targets), expected);
  back->backward(0, {}, {}, {});
  std::ranges::copy(back->boundary_gradient(0), front->boundary_gradient(0).begin());
  front->backward(0, tokens, {}, {});
  for (CpuStage* part : {front.get(), back.get()})
    for (const Slice& slice : part->layout().slices()) {
      if (slice.tensor == Tensor::kTokenEmbedding) continue;  // the sum of both: checked below
      const Slice& same = whole->layout().find(slice.tensor, slice.layer);
      for (std::size_t at = 0; at < slice.elements; ++at)
        ASSERT_EQ(part->gradients()[slice.offset + at], whole->gradients()[same.offset + at])
            << tensor_info(slice.tensor).name;
    }
  const Slice& shared = whole->layout().find(Tensor::kTokenEmbedding);
  for (std::size_t at = 0; at < shared.elements; ++at)
    ASSERT_NEAR(front->gradients()[front->layout().find(Tensor::kTokenEmbedding).offset + at] +
                    back->gradients()[back->layout().find(Tensor::kTokenEmbedding).offset + at],
                whole->gradients()[shared.offset + at], 1e-6);
}

TEST(CpuStage, RecomputationChangesNoBitAndKeepsLess) {
  const Shape shape = small_shape(3, 24, 3, 40);
  const auto tokens = random_tokens(2 * 40, shape.vocabulary, 1);
  const auto targets = random_tokens(2 * 40, shape.vocabulary, 2);
  const auto gradients_with = [&](planner::Recompute recompute, std::size_t* activations) {
    StageOptions options = whole_model(shape, 2);
    options.in_flight = 2;
    options.recompute = recompute;
    auto stage = make_cpu_stage(options);
    initialize_widely(shape, *stage);
    // The second micro-batch goes through what is shared before the first one's backward.
    stage->forward(0, tokens, targets, {});
    stage->forward(1, targets, tokens, {});
    stage->backward(0, tokens, {}, {});
    stage->backward(1, targets, {}, {});
    *activations = stage->memory().activations;
    return std::vector<float>(stage->gradients().begin(), stage->gradients().end());
  };
  std::size_t none = 0, selective = 0, full = 0;
  const std::vector<float> expected = gradients_with(planner::Recompute::kNone, &none);
  EXPECT_EQ(gradients_with(planner::Recompute::kSelective, &selective), expected);
  EXPECT_EQ(gradients_with(planner::Recompute::kFull, &full), expected);
  // Of 2 x 3 sets of attention weights one is left.
  EXPECT_EQ(none - selective, 5 * 2 * 3 * 40 * 40 * sizeof(float));
  EXPECT_LT(full, selective);
}

TEST(CpuStage, MomentsInBfloat16AreRefused) {
  StageOptions options = whole_model(small_shape(), 1);
  options.moments = compute::Precision::kBfloat16;
  try {
    make_cpu_stage(options);
    FAIL() << "moments in bf16 were accepted";
  } catch (const Error& error) {
    EXPECT_EQ(error.cause(), Cause::kUnsupported);
    EXPECT_NE(std::string(error.what()).find("moments in fp32 only"), std::string::npos);
  }
}

TEST(CpuStage, BackwardAnnouncesGradientsFromTheEndOfTheArenaToItsBeginning) {
  const Shape shape = small_shape();
  const auto tokens = random_tokens(9, shape.vocabulary, 1);
  auto stage = make_cpu_stage(whole_model(shape, 1));
  initialize(shape, 7, stage->layout(), stage->parameters());
  stage->forward(0, tokens, tokens, {});
  std::vector<std::size_t> announced;
  int progress = 0;
  stage->backward(
      0, tokens, [&] { ++progress; }, [&](std::size_t from) { announced.push_back(from); });
  EXPECT_EQ(announced,
            (std::vector<std::size_t>{stage->layout().layer_begin(1), stage->layout().layer_begin(0), 0}));
  EXPECT_EQ(progress, 2);
}

TEST(CpuStage, TheLossOfAnUntrainedModelIsTheLogarithmOfTheVocabulary) {
  const Shape shape = small_shape(2, 32, 2, 16);
  auto stage = make_cpu_stage(whole_model(shape, 1));
  initialize(shape, 1, stage->layout(), stage->parameters());
  const auto tokens = random_tokens(16, shape.vocabulary, 1);
  const auto targets = random_tokens(16, shape.vocabulary, 2);
  EXPECT_NEAR(loss_of(*stage, tokens, targets) / 16, std::log(31.0), 0.1);
}

TEST(CpuStage, ScoresOfAPositionDoNotDependOnLaterTokens) {
  const Shape shape = small_shape(2, 32, 2, 70);  // more than one block of queries
  auto stage = make_cpu_stage(whole_model(shape, 1));
  initialize_widely(shape, *stage);
  auto tokens = random_tokens(70, shape.vocabulary, 1);
  stage->forward(0, tokens, {}, {});
  const std::vector<float> before(stage->scores(0, 0, 40).begin(), stage->scores(0, 0, 40).end());
  for (std::size_t at = 41; at < tokens.size(); ++at) tokens[at] = 0;
  stage->forward(0, tokens, {}, {});
  const std::vector<float> after(stage->scores(0, 0, 40).begin(), stage->scores(0, 0, 40).end());
  EXPECT_EQ(before, after);
}

TEST(CpuStage, AnImpossibleStageIsRefusedByName) {
  StageOptions options = whole_model(small_shape(), 1);
  options.layers = 3;
  EXPECT_THROW(make_cpu_stage(options), Error);
  options = whole_model(small_shape(2, 25, 3), 1);
  try {
    make_cpu_stage(options);
    FAIL() << "width 25 with 3 heads was accepted";
  } catch (const Error& error) {
    EXPECT_NE(std::string(error.what()).find("width 25 is not a multiple of heads 3"), std::string::npos);
  }
}

}  // namespace
}  // namespace tombolo::trainer
