#include "trainer/cuda/operations/rounding.h"

#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <limits>
#include <random>

#include "base/randomized_test.h"
#include "trainer/cuda/operations/reference.h"

namespace tombolo::trainer::cuda {
namespace {

float rounded(float value) {
  std::uint16_t bits = 0;
  const Values one{reinterpret_cast<std::byte*>(&bits), Element::kBfloat16};
  store_value(one, 0, value);
  return load_value(one, 0);
}

TEST(Rounding, TakesTheNearestBfloat16AndOfTwoEquallyNearTheEvenOne) {
  EXPECT_EQ(rounded(1.0F), 1.0F);
  // Between 1 and the next bfloat16 lies 2^-7.
  EXPECT_EQ(rounded(1.0F + 0x1p-8F), 1.0F);
  EXPECT_EQ(rounded(1.0F + 0x1.8p-8F), 1.0F + 0x1p-7F);
  EXPECT_EQ(rounded(1.0F + 0x1p-7F + 0x1p-8F), 1.0F + 0x1p-6F);
  std::mt19937 random(test_seed());
  for (int round = 0; round < test_rounds(20000); ++round) {
    const auto value = std::bit_cast<float>(static_cast<std::uint32_t>(random()));
    if (!std::isfinite(value)) continue;
    const auto below = std::bit_cast<float>(std::bit_cast<std::uint32_t>(value) & 0xffff0000U);
    const auto above = std::bit_cast<float>((std::bit_cast<std::uint32_t>(value) & 0xffff0000U) + 0x10000U);
    const float result = rounded(value);
    ASSERT_TRUE(result == below || result == above || (std::isinf(above) && std::isinf(result))) << value;
    if (!std::isfinite(above)) continue;
    const double error = std::abs(static_cast<double>(result) - static_cast<double>(value));
    ASSERT_LE(error, std::abs(static_cast<double>(below) - static_cast<double>(value))) << value;
    ASSERT_LE(error, std::abs(static_cast<double>(above) - static_cast<double>(value))) << value;
  }
}

TEST(Rounding, KeepsWhatIsNoNumber) {
  EXPECT_TRUE(std::isnan(rounded(std::numeric_limits<float>::quiet_NaN())));
  // A NaN whose mark lies in the lower half alone must not become an infinity.
  EXPECT_TRUE(std::isnan(rounded(std::bit_cast<float>(0x7f800001U))));
  EXPECT_EQ(rounded(INFINITY), INFINITY);
  EXPECT_EQ(rounded(-INFINITY), -INFINITY);
  EXPECT_EQ(bfloat16_bits_at_random(0x7f800000U, 0xffffU), 0x7f80U);
  EXPECT_EQ(bfloat16_bits_at_random(0x7f7fffffU, 0U), 0x7f7fU);
}

TEST(Rounding, AtRandomHitsTheValueOnAverage) {
  const float value = 1.0F + 0x1p-7F * 0.3F;
  double sum = 0;
  constexpr int kRounds = 40000;
  for (int round = 0; round < kRounds; ++round) {
    const std::uint32_t random = rounding_bits(static_cast<std::uint64_t>(round), 7);
    // Both halves are used, for one moment each.
    const std::uint32_t half = round % 2 == 0 ? random & 0xffffU : random >> 16;
    const std::uint16_t bits = bfloat16_bits_at_random(std::bit_cast<std::uint32_t>(value), half);
    sum += static_cast<double>(std::bit_cast<float>(static_cast<std::uint32_t>(bits) << 16));
  }
  // The mean of 40000 draws of deviation 0.46 x 2^-7 is off by 2^-7 / 435 on average.
  EXPECT_NEAR(sum / kRounds, static_cast<double>(value), 0x1p-7 / 80);
}

TEST(Rounding, RandomBitsDependOnElementAndStep) {
  EXPECT_EQ(rounding_bits(5, 3), rounding_bits(5, 3));
  int equal = 0;
  for (std::uint64_t element = 0; element < 1000; ++element)
    equal += rounding_bits(element, 1) == rounding_bits(element, 2) ||
             rounding_bits(element, 1) == rounding_bits(element + 1, 1);
  EXPECT_EQ(equal, 0);
}

}  // namespace
}  // namespace tombolo::trainer::cuda
