// The stage on the pretended device against the CPU's, in whatever order the device does its work.
#include "trainer/cuda/stage/cuda_stage.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "base/randomized_test.h"
#include "trainer/cpu/cpu_stage.h"
#include "trainer/cuda/testing/stage_training.h"
#include "trainer/testing/expect_refusal.h"

namespace tombolo::trainer::cuda {
namespace {

/// Cosine of the angle between the two, and how much longer the first is.
std::pair<double, double> direction_and_length(const std::vector<float>& one,
                                               const std::vector<float>& other) {
  double dot = 0, squares = 0, other_squares = 0;
  for (std::size_t at = 0; at < one.size(); ++at) {
    const auto a = static_cast<double>(one[at]), b = static_cast<double>(other[at]);
    dot += a * b;
    squares += a * a;
    other_squares += b * b;
  }
  return {dot / std::sqrt(squares * other_squares), std::sqrt(squares / other_squares)};
}

// fp32 against fp32 with other orders of sums: a relative 1e-5 of the loss and the norm in ten steps, 1e-5
// of a gradient's largest element, 1e-4 of a parameter (which moves by up to 1e-2 in each step).
void expect_equal_in_fp32(const Trained& found, const Trained& expected) {
  for (std::size_t step = 0; step < expected.losses.size(); ++step) {
    EXPECT_NEAR(found.losses[step], expected.losses[step], 1e-5 * expected.losses[step]) << "step " << step;
    EXPECT_NEAR(found.norms[step], expected.norms[step], 1e-4 * expected.norms[step]) << "step " << step;
  }
  ASSERT_EQ(found.gradients.size(), expected.gradients.size());
  for (std::size_t stage = 0; stage < expected.gradients.size(); ++stage) {
    const auto& gradients = expected.gradients[stage];
    const float largest =
        std::abs(*std::ranges::max_element(gradients, {}, [](float value) { return std::abs(value); }));
    for (std::size_t at = 0; at < gradients.size(); ++at) {
      ASSERT_NEAR(found.gradients[stage][at], gradients[at], 1e-4 * largest)
          << "stage " << stage << " " << at;
      ASSERT_NEAR(found.parameters[stage][at], expected.parameters[stage][at], 1e-4)
          << "stage " << stage << " " << at;
    }
  }
}

/// Orders that leave least to chance: everything at once, nothing before the host waits, and each mixture.
std::vector<PretendedOptions> extreme_orders() {
  std::vector<PretendedOptions> all;
  for (const Eagerness compute : {Eagerness::kEarly, Eagerness::kLate})
    for (const Eagerness to_host : {Eagerness::kEarly, Eagerness::kLate})
      for (const Eagerness from_host : {Eagerness::kEarly, Eagerness::kLate})
        all.push_back(streams(compute, to_host, from_host));
  return all;
}

TEST(CudaStage, TenStepsInFp32AreTheCpusWhateverTheDevicesOrder) {
  for (const int stages : {1, 2, 3}) {
    SCOPED_TRACE(fmt::format("{} stages", stages));
    const Trained expected = trained_on_cpu(stages);
    EXPECT_LT(expected.losses.back(), expected.losses.front() - 0.1) << "too little was learnt to prove much";
    Variant variant;
    variant.stages = stages;
    const Trained first = trained(variant);
    expect_equal_in_fp32(first, expected);
    for (const PretendedOptions& order : extreme_orders()) {
      variant.device = order;
      EXPECT_EQ(trained(variant), first) << "the order must not change a bit";
    }
    for (int round = 0; round < test_rounds(6); ++round) {
      variant.device = PretendedOptions{.seed = test_seed() + static_cast<unsigned>(round)};
      EXPECT_EQ(trained(variant), first);
    }
  }
}

TEST(CudaStage, GraphsRecomputationAndChunksChangeNoBit) {
  for (const int stages : {1, 2}) {
    for (const auto precision : {compute::Precision::kFloat32, compute::Precision::kBfloat16}) {
      SCOPED_TRACE(fmt::format("{} stages, {}", stages, compute::precision_name(precision)));
      Variant variant;
      variant.stages = stages;
      variant.precision = precision;
      const Trained expected = trained(variant, 4);
      variant.cuda.graphs = false;
      EXPECT_EQ(trained(variant, 4), expected) << "without graphs";
      for (const bool graphs : {false, true}) {
        variant.cuda.graphs = graphs;
        for (const auto recompute : {planner::Recompute::kSelective, planner::Recompute::kFull}) {
          variant.recompute = recompute;
          EXPECT_EQ(trained(variant, 4), expected) << planner::recompute_name(recompute);
        }
      }
    }
  }
  // Chunks of tokens change the order in which the embedding's gradient is added up, and nothing else.
  Variant variant;
  variant.cuda.chunk_tokens = 5;
  expect_equal_in_fp32(trained(variant), trained_on_cpu(1));
}

TEST(CudaStage, GraphsAreCapturedOnceAndLaunchedFromThenOn) {
  const auto device = std::make_shared<PretendedDevice>();
  {
    std::vector<std::unique_ptr<StageCompute>> stages;
    stages.push_back(make_cuda_stage(device, stage_options(0, 3)));
    Training training(std::move(stages));
    training.run(1);
    // Both slots' parts ran once as they came, and once more from a graph: 3 + 3 layers, the head's three,
    // the embedding. The update ran once.
    EXPECT_EQ(device->launches(), 2U * 10U);
    training.run(1);
    EXPECT_EQ(device->launches(), 2U * 10U + 4U * 10U + 1U);
  }
}

TEST(CudaStage, Bfloat16TrainsNearlyAsFp32) {
  for (const int stages : {1, 2}) {
    SCOPED_TRACE(fmt::format("{} stages", stages));
    Variant variant;
    variant.stages = stages;
    const Trained exact_step = trained(variant, 1), exact = trained(variant);
    variant.precision = compute::Precision::kBfloat16;
    const Trained rounded_step = trained(variant, 1), rounded = trained(variant);
    EXPECT_NE(rounded_step.losses, exact_step.losses) << "fp32 was used";
    EXPECT_NEAR(rounded_step.losses[0], exact_step.losses[0], 0.02 * exact_step.losses[0]);
    for (std::size_t stage = 0; stage < exact_step.gradients.size(); ++stage) {
      const auto [cosine, length] =
          direction_and_length(rounded_step.gradients[stage], exact_step.gradients[stage]);
      EXPECT_GT(cosine, 0.995) << "stage " << stage;
      EXPECT_NEAR(length, 1, 0.03) << "stage " << stage;
    }
    for (std::size_t step = 0; step < exact.losses.size(); ++step)
      EXPECT_NEAR(rounded.losses[step], exact.losses[step], 0.03 * exact.losses[step]) << "step " << step;
    variant.moments = compute::Precision::kBfloat16;
    const Trained small_moments = trained(variant);
    EXPECT_NE(small_moments, rounded) << "the moments were fp32";
    for (std::size_t step = 0; step < exact.losses.size(); ++step)
      EXPECT_NEAR(small_moments.losses[step], exact.losses[step], 0.03 * exact.losses[step]) << step;
    EXPECT_EQ(trained(variant), small_moments) << "rounding at random repeats itself";
  }
}
TEST(CudaStage, ScoresAreTheCpus) {
  for (const auto precision : {compute::Precision::kFloat32, compute::Precision::kBfloat16}) {
    StageOptions options = stage_options(0, 3);
    options.training = false;
    const auto expected = make_cpu_stage(options);
    options.precision = precision;
    const auto found = make_cuda_stage(std::make_shared<PretendedDevice>(), options);
    initialize_widely(*expected);
    initialize_widely(*found);
    const auto tokens = random_tokens(kTokens, 3);
    const double bound = precision == compute::Precision::kFloat32 ? 1e-4 : 0.1;
    for (const int micro_batch : {0, 1, 2}) {
      expected->forward(micro_batch, tokens, {}, {});
      found->forward(micro_batch, tokens, {}, {});
      for (const auto& [row, position] : {std::pair{0, 0}, std::pair{1, 4}, std::pair{1, 8}}) {
        const auto want = expected->scores(micro_batch, row, position);
        const auto have = found->scores(micro_batch, row, position);
        ASSERT_EQ(have.size(), want.size());
        for (std::size_t at = 0; at < want.size(); ++at)
          EXPECT_NEAR(have[at], want[at], bound * std::max(1.0, std::abs(static_cast<double>(want[at]))));
      }
    }
    EXPECT_EQ(found->take_loss_sum(), 0);
  }
}

TEST(CudaStage, AStageThatDoesNotTrainFindsTheLoss) {
  StageOptions options = stage_options(0, 3);
  options.training = false;
  const auto expected = make_cpu_stage(options);
  const auto found = make_cuda_stage(std::make_shared<PretendedDevice>(), options);
  initialize_widely(*expected);
  initialize_widely(*found);
  const auto tokens = random_tokens(kTokens, 3), targets = random_tokens(kTokens, 4);
  for (int round = 0; round < 3; ++round) {
    expected->forward(round, tokens, targets, {});
    found->forward(round, tokens, targets, {});
  }
  EXPECT_NEAR(found->take_loss_sum(), expected->take_loss_sum(), 1e-3);
  EXPECT_EQ(found->take_loss_sum(), 0) << "it was taken";
  test::expect_refusal([&] { found->update({}); }, {"does not train"}, Cause::kInternal);
  std::vector<float> moments(4);
  test::expect_refusal([&] { found->read_state(StageState::kFirstMoment, 0, moments); }, {"no moments"},
                       Cause::kInternal);
}

TEST(CudaStage, StateIsWrittenAndReadInPiecesThatBeginAnywhere) {
  for (const auto moments : {compute::Precision::kFloat32, compute::Precision::kBfloat16}) {
    StageOptions options = stage_options(0, 3);
    options.precision = options.moments = moments;
    const auto stage = make_cuda_stage(std::make_shared<PretendedDevice>(), options);
    const std::size_t size = stage->layout().size();
    std::mt19937 random(test_seed());
    for (const StageState state : kStageStates) {
      std::vector<float> expected(size);
      // Few bits, so that bf16 holds them.
      for (float& value : expected) value = static_cast<float>(random() % 128);
      stage->write_state(state, 0, expected);
      for (int round = 0; round < 20; ++round) {
        const std::size_t begin = random() % size, count = random() % (size - begin + 1);
        std::vector<float> piece(count);
        for (float& value : piece) value = static_cast<float>(random() % 128);
        stage->write_state(state, begin, piece);
        std::ranges::copy(piece, expected.begin() + static_cast<std::ptrdiff_t>(begin));
      }
      std::vector<float> found(size);
      stage->read_state(state, 0, found);
      EXPECT_EQ(found, expected);
      std::vector<float> piece(7);
      stage->read_state(state, 21, piece);
      EXPECT_TRUE(std::equal(piece.begin(), piece.end(), expected.begin() + 21));
    }
    std::vector<float> beyond(2);
    test::expect_refusal([&] { stage->read_state(StageState::kParameters, size - 1, beyond); },
                         {fmt::format("2 floats from {}", size - 1).c_str()}, Cause::kInternal);
  }
}

TEST(CudaStage, GradientsAreReadInPiecesWhetherOrNotTheyAreExchanged) {
  Training exchanging = training_of(Variant{});
  const std::vector<float> expected = exchanging.run(1).gradients.front();
  Training alone = training_of(1, [](StageOptions options) {
    options.exchanges_gradients = false;
    return make_cuda_stage(std::make_shared<PretendedDevice>(PretendedOptions{.seed = test_seed()}), options);
  });
  StageCompute& stage = alone.stage(0);
  stage.clear_gradients();
  alone.passes();
  std::mt19937 random(test_seed());
  for (int round = 0; round < 20; ++round) {
    const std::size_t begin = random() % expected.size(), count = random() % (expected.size() - begin + 1);
    std::vector<float> piece(count);
    stage.read_gradients(begin, piece);
    EXPECT_TRUE(
        std::equal(piece.begin(), piece.end(), expected.begin() + static_cast<std::ptrdiff_t>(begin)));
  }
  std::vector<float> beyond(2);
  test::expect_refusal([&] { stage.read_gradients(expected.size() - 1, beyond); }, {"2 floats from"},
                       Cause::kInternal);
}

TEST(CudaStage, TrainingGoesOnFromStateAsIfItHadNotStopped) {
  Variant variant;
  variant.precision = variant.moments = compute::Precision::kBfloat16;
  Training whole = training_of(variant);
  whole.run(1);
  Training second = training_of(variant);
  for (const StageState state : kStageStates) {
    std::vector<float> values(whole.stage(0).layout().size());
    whole.stage(0).read_state(state, 0, values);
    second.stage(0).write_state(state, 0, values);
  }
  EXPECT_EQ(second.run(3), whole.run(3));
}

TEST(CudaStage, WaitingForEachBlockCallsProgressOncePerBlock) {
  StageOptions options = stage_options(0, 3);
  options.wait_per_layer = true;
  const auto device =
      std::make_shared<PretendedDevice>(streams(Eagerness::kLate, Eagerness::kLate, Eagerness::kLate));
  const auto stage = make_cuda_stage(device, options);
  initialize_widely(*stage);
  const auto tokens = random_tokens(kTokens, 1);
  std::vector<std::size_t> pending;
  const auto note = [&] { pending.push_back(device->pending()); };
  stage->forward(0, tokens, tokens, note);
  note();
  stage->backward(0, tokens, note, {});
  note();
  EXPECT_EQ(pending, std::vector<std::size_t>(8, 0)) << "the device is done each time";
}

TEST(CudaStage, WhatDoesNotFitIsRefusedByName) {
  const auto make = [](const StageOptions& options) {
    return make_cuda_stage(std::make_shared<PretendedDevice>(), options);
  };
  StageOptions options = stage_options(1, 3);
  test::expect_refusal([&] { make(options); }, {"layers 1+3 of 3"});
  options = stage_options(0, 3);
  const auto stage = make(options);
  initialize_widely(*stage);
  const auto few = random_tokens(kTokens - 1, 1);
  auto outside = random_tokens(kTokens, 1);
  test::expect_refusal([&] { stage->forward(0, few, few, {}); }, {"17 token given", "has 18"},
                       Cause::kInternal);
  outside[3] = 29;
  test::expect_refusal([&] { stage->forward(0, outside, {}, {}); }, {"token 29 at place 3"});
  options.exchanges_gradients = false;
  const auto alone = make(options);
  test::expect_refusal(
      [&] {
        alone->gradients_to_host({0, 16});
      },
      {"made to exchange none"}, Cause::kInternal);
}

}  // namespace
}  // namespace tombolo::trainer::cuda
