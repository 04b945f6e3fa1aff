#include "compute/precision.h"

#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <cstdint>
#include <random>
#include <vector>

#include "base/error.h"
#include "base/randomized_test.h"
#include "compute/instruction_set.h"
#include "compute/rounding_of_sum.h"

namespace tombolo::compute {
namespace {

/// To nearest even, by arithmetic on the bits.
float rounded(float value) {
  auto bits = std::bit_cast<std::uint32_t>(value);
  bits += 0x7fff + ((bits >> 16) & 1);
  return std::bit_cast<float>(bits & 0xffff0000U);
}

std::vector<float> random_values(std::mt19937& generator, std::size_t count) {
  std::normal_distribution<float> normal;
  std::vector<float> values(count);
  for (float& value : values) value = normal(generator);
  return values;
}

TEST(Precision, HasNames) {
  for (const Precision precision : {Precision::kFloat32, Precision::kBfloat16})
    EXPECT_EQ(precision_from_name(precision_name(precision)), precision);
  EXPECT_EQ(precision_from_name("fp16"), std::nullopt);
}

TEST(Precision, SaysWhatIsMissing) {
  EXPECT_NO_THROW(check_precision(Precision::kFloat32));
  if (bfloat16_kernels()) GTEST_SKIP() << "this processor multiplies bfloat16";
  try {
    check_precision(Precision::kBfloat16);
    FAIL() << "was accepted";
  } catch (const Error& error) {
    EXPECT_EQ(error.cause(), Cause::kUnsupported);
    EXPECT_NE(std::string(error.what()).find("AVX512_BF16"), std::string::npos) << error.what();
  }
}

TEST(Precision, ProductsOfBfloat16AreThoseOfRoundedOperands) {
  if (!bfloat16_kernels()) GTEST_SKIP() << "this processor does not multiply bfloat16";
  std::mt19937 generator(test_seed());
  const auto up_to = [&](std::size_t most) {
    return std::uniform_int_distribution<std::size_t>(0, most)(generator);
  };
  for (int round = 0; round < 200; ++round) {
    const std::size_t rows = 1 + up_to(70), columns = 1 + up_to(70),
                      inner = up_to(round % 10 == 0 ? 2500 : 90);
    const bool left_transposed = up_to(1) == 1, right_transposed = up_to(1) == 1, with_matrix = up_to(1) == 1;
    const std::size_t gap = 3 * up_to(1);
    const std::size_t left_stride = (left_transposed ? rows : inner) + gap,
                      right_stride = (right_transposed ? inner : columns) + gap;
    // Nothing beyond the operands may be read: the vectors end with them.
    const auto left = random_values(generator, (left_transposed ? inner : rows) * left_stride);
    const auto right = random_values(generator, (right_transposed ? columns : inner) * right_stride);
    std::vector<float> out = random_values(generator, rows * columns);
    const std::vector<float> before = out;
    Epilogue epilogue;
    if (with_matrix) epilogue = {.matrix = out.data(), .matrix_stride = columns};
    multiply_of(Precision::kBfloat16)(out.data(), columns, {left.data(), left_stride, left_transposed},
                                      {right.data(), right_stride, right_transposed}, rows, columns, inner,
                                      epilogue);
    for (std::size_t i = 0; i < rows; ++i)
      for (std::size_t j = 0; j < columns; ++j) {
        double expected = with_matrix ? static_cast<double>(before[i * columns + j]) : 0;
        double magnitudes = std::abs(expected);
        for (std::size_t k = 0; k < inner; ++k) {
          const double term =
              static_cast<double>(
                  rounded(left[left_transposed ? k * left_stride + i : i * left_stride + k])) *
              static_cast<double>(
                  rounded(right[right_transposed ? j * right_stride + k : k * right_stride + j]));
          expected += term;
          magnitudes += std::abs(term);
        }
        ASSERT_NEAR(out[i * columns + j], expected, rounding_of_sum(inner + 2, magnitudes))
            << "round " << round << ", row " << i << ", column " << j << " of " << rows << " x " << columns
            << " x " << inner << (left_transposed ? ", left transposed" : "")
            << (right_transposed ? ", right transposed" : "");
      }
  }
}

TEST(Precision, ProductsOfBfloat16AreTheSameWithAnyNumberOfThreads) {
  if (!bfloat16_kernels()) GTEST_SKIP() << "this processor does not multiply bfloat16";
  std::mt19937 generator(test_seed());
  constexpr std::size_t kRows = 257, kColumns = 96, kInner = 401;
  const auto left = random_values(generator, kRows * kInner),
             right = random_values(generator, kColumns * kInner);
  const auto product = [&](int threads) {
    const MultiplyThreads shared(threads);
    std::vector<float> out(kRows * kColumns);
    multiply_bfloat16(out.data(), kColumns, {left.data(), kInner}, {right.data(), kInner, true}, kRows,
                      kColumns, kInner);
    return out;
  };
  const std::vector<float> alone = product(1);
  for (const int threads : {2, 3, 7}) EXPECT_EQ(product(threads), alone) << threads;
}

}  // namespace
}  // namespace tombolo::compute
