#include "trainer/cpu/kernels.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <random>
#include <string>
#include <vector>

#include "compute/instruction_set.h"

namespace tombolo::trainer::cpu {
namespace {

using compute::InstructionSet;

/// Every set that this machine runs, at widths with and without a rest of a vector.
class KernelSets : public testing::TestWithParam<InstructionSet> {
 protected:
  void SetUp() override {
    if (GetParam() > instruction_set_of(compute::read_cpuid()))
      GTEST_SKIP() << "this machine lacks the instruction set";
  }
  const Kernels& set() const { return kernels(GetParam()); }
};

std::vector<float> random_values(std::size_t count, unsigned seed, float spread = 3) {
  std::mt19937 random(seed);
  std::normal_distribution<float> normal(0, spread);
  std::vector<float> values(count);
  for (float& value : values) value = normal(random);
  return values;
}

TEST_P(KernelSets, GeluIsThatOfDoublePrecisionEverywhere) {
  std::vector<float> x;
  for (float value = -30; value <= 30; value += 0.037F) x.push_back(value);
  std::vector<float> out(x.size());
  set().gelu(out.data(), x.data(), x.size());
  std::vector<float> slope(x.size(), 1.0F), bias(x.size(), 0.0F);
  set().gelu_backward(slope.data(), x.data(), bias.data(), 1, x.size());
  for (std::size_t at = 0; at < x.size(); ++at) {
    const double value = x[at];
    const double inner = std::sqrt(2 / M_PI) * (value + 0.044715 * value * value * value);
    const double expected = 0.5 * value * (1 + std::tanh(inner));
    EXPECT_NEAR(out[at], expected, 4e-7 * std::max(1.0, std::abs(expected))) << value;
    const double derivative = 0.5 * (1 + std::tanh(inner)) + 0.5 * value / std::pow(std::cosh(inner), 2) *
                                                                 std::sqrt(2 / M_PI) *
                                                                 (1 + 3 * 0.044715 * value * value);
    EXPECT_NEAR(slope[at], derivative, 2e-6) << value;
    EXPECT_EQ(slope[at], bias[at]);
  }
}

TEST_P(KernelSets, NormHasMeanZeroAndDeviationOne) {
  for (std::size_t width : {16u, 37u, 128u}) {
    const auto x = random_values(3 * width, 1);
    const auto weight = random_values(width, 2), bias = random_values(width, 3);
    std::vector<float> out(3 * width), mean(3), inverse(3);
    set().norm(out.data(), mean.data(), inverse.data(), x.data(), weight.data(), bias.data(), 3, width);
    for (std::size_t row = 0; row < 3; ++row) {
      double total = 0, squares = 0;
      for (std::size_t at = 0; at < width; ++at) total += x[row * width + at];
      const double middle = total / static_cast<double>(width);
      for (std::size_t at = 0; at < width; ++at) squares += std::pow(x[row * width + at] - middle, 2);
      const double scale = 1 / std::sqrt(squares / static_cast<double>(width) + 1e-5);
      for (std::size_t at = 0; at < width; ++at)
        EXPECT_NEAR(out[row * width + at], (x[row * width + at] - middle) * scale * weight[at] + bias[at],
                    1e-5);
    }
  }
}

TEST_P(KernelSets, CausalSoftmaxSumsToOneAndHidesWhatComesLater) {
  constexpr std::size_t kWidth = 45;
  auto scores = random_values(5 * kWidth, 1, 20);
  const auto before = scores;
  set().causal_softmax(scores.data(), 30, 5, 35, kWidth);
  for (std::size_t row = 0; row < 5; ++row) {
    double total = 0, expected_total = 0;
    for (std::size_t at = 0; at <= 30 + row; ++at) {
      total += scores[row * kWidth + at];
      expected_total += std::exp(static_cast<double>(before[row * kWidth + at]));
    }
    EXPECT_NEAR(total, 1, 1e-6);
    for (std::size_t at = 0; at <= 30 + row; ++at)
      EXPECT_NEAR(scores[row * kWidth + at],
                  std::exp(static_cast<double>(before[row * kWidth + at])) / expected_total, 1e-6);
    for (std::size_t at = 31 + row; at < 35; ++at) EXPECT_EQ(scores[row * kWidth + at], 0);
    for (std::size_t at = 35; at < kWidth; ++at)
      EXPECT_EQ(scores[row * kWidth + at], before[row * kWidth + at]);
  }
}

TEST_P(KernelSets, CrossEntropyGivesTheLossAndItsGradient) {
  for (std::size_t width : {31u, 256u}) {
    auto scores = random_values(2 * width, 1);
    const auto before = scores;
    const std::int32_t targets[] = {3, static_cast<std::int32_t>(width) - 1};
    const double loss = set().cross_entropy(scores.data(), targets, 2, width, 0.5F);
    double expected = 0;
    for (std::size_t row = 0; row < 2; ++row) {
      double total = 0;
      for (std::size_t at = 0; at < width; ++at)
        total += std::exp(static_cast<double>(before[row * width + at]));
      const auto target = static_cast<std::size_t>(targets[row]);
      expected += std::log(total) - before[row * width + target];
      for (std::size_t at = 0; at < width; ++at)
        EXPECT_NEAR(
            scores[row * width + at],
            0.5 * (std::exp(static_cast<double>(before[row * width + at])) / total - (at == target ? 1 : 0)),
            1e-6);
    }
    EXPECT_NEAR(loss, expected, 1e-5);
  }
}

// A score that is no number must be seen in what follows from it, wherever it stands in the row.
TEST_P(KernelSets, NotANumberPassesThroughSoftmaxLossAndGelu) {
  for (const std::size_t width : {5u, 16u, 50u})
    for (const std::size_t at : {std::size_t{0}, width / 2, width - 1}) {
      auto row = random_values(width, 1);
      row[at] = std::numeric_limits<float>::quiet_NaN();
      auto weights = row;
      set().causal_softmax(weights.data(), width - 1, 1, width, width);
      auto gradient = row;
      const std::int32_t target = static_cast<std::int32_t>(width) - 1 - static_cast<std::int32_t>(at);
      EXPECT_TRUE(std::isnan(set().cross_entropy(gradient.data(), &target, 1, width, 1)))
          << width << " " << at;
      for (std::size_t i = 0; i < width; ++i) {
        EXPECT_TRUE(std::isnan(weights[i])) << width << " " << at << " " << i;
        EXPECT_TRUE(std::isnan(gradient[i])) << width << " " << at << " " << i;
      }
      std::vector<float> out(width);
      set().gelu(out.data(), row.data(), width);
      for (std::size_t i = 0; i < width; ++i) EXPECT_EQ(std::isnan(out[i]), i == at) << width << " " << i;
    }
}

TEST_P(KernelSets, AdamWMovesAsItsFormulaSays) {
  constexpr std::size_t kCount = 21;
  auto p = random_values(kCount, 1), m = random_values(kCount, 2, 0.1F), v = random_values(kCount, 3, 0.1F);
  const auto g = random_values(kCount, 4);
  for (float& value : v) value = std::abs(value);
  const auto p0 = p, m0 = m, v0 = v;
  AdamW options;
  options.clip = 1;
  options.weight_decay = 0.3;
  options.learning_rate = 0.01;
  const AdamWStep step = adamw_step(options, 4, 2.5);
  set().adamw(p.data(), g.data(), m.data(), v.data(), kCount, step, step.decay);
  for (std::size_t at = 0; at < kCount; ++at) {
    const double gradient = g[at] / (2.5 + 1e-6);
    const double first = 0.9 * m0[at] + 0.1 * gradient;
    const double second = 0.95 * v0[at] + 0.05 * gradient * gradient;
    EXPECT_NEAR(m[at], first, 1e-6);
    EXPECT_NEAR(v[at], second, 1e-6);
    const double root = std::sqrt(second / (1 - std::pow(0.95, 5))) + 1e-8;
    EXPECT_NEAR(p[at], p0[at] * (1 - 0.01 * 0.3) - 0.01 / (1 - std::pow(0.9, 5)) * first / root, 2e-6);
  }
}

TEST_P(KernelSets, SumsAddWhatIsThere) {
  for (std::size_t width : {5u, 16u, 50u}) {
    const auto rows = random_values(7 * width, 1);
    std::vector<float> sums(width, 1.0F);
    set().sum_rows(sums.data(), rows.data(), 7, width);
    double squares = 0;
    for (std::size_t at = 0; at < width; ++at) {
      double expected = 1;
      for (std::size_t row = 0; row < 7; ++row) expected += rows[row * width + at];
      EXPECT_NEAR(sums[at], expected, 1e-5);
    }
    for (float value : rows) squares += static_cast<double>(value) * static_cast<double>(value);
    EXPECT_NEAR(set().square_sum(rows.data(), rows.size()), squares, 1e-5 * squares);
  }
}

std::string set_name(const testing::TestParamInfo<InstructionSet>& set) {
  return std::string(instruction_set_name(set.param));
}

INSTANTIATE_TEST_SUITE_P(InstructionSets, KernelSets,
                         testing::Values(InstructionSet::kBaseline, InstructionSet::kAvx2,
                                         InstructionSet::kAvx512),
                         set_name);

}  // namespace
}  // namespace tombolo::trainer::cpu
