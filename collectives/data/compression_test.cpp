#include "collectives/data/compression.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <limits>
#include <random>
#include <vector>

#include "base/error.h"
#include "base/randomized_test.h"
#include "collectives/data/half.h"

namespace tombolo::collectives {
namespace {

constexpr Compression kAll[] = {Compression::kBfloat16, Compression::kInt8};

std::byte* bytes_of(float* values) {
  return reinterpret_cast<std::byte*>(values);
}
const std::byte* bytes_of(const float* values) {
  return reinterpret_cast<const std::byte*>(values);
}

/// Values of very different magnitudes.
std::vector<float> random_values(std::mt19937& random, std::size_t count) {
  std::normal_distribution<float> normal;
  std::vector<float> values(count);
  for (float& value : values) value = std::ldexp(normal(random), static_cast<int>(random() % 20) - 10);
  return values;
}

std::vector<float> round_trip(Compression compression, const std::vector<float>& values,
                              float* residual = nullptr) {
  // At odd addresses: there is no alignment to rely on.
  std::vector<std::byte> encoded(encoded_bytes(compression, values.size()) + 1);
  std::vector<float> back(values.size());
  encode(compression, bytes_of(values.data()), values.size(), encoded.data() + 1,
         residual == nullptr ? nullptr : bytes_of(residual));
  decode(compression, encoded.data() + 1, values.size(), bytes_of(back.data()));
  return back;
}

/// The bound of compression.h on the error of value i.
double bound(Compression compression, const std::vector<float>& values, std::size_t i) {
  if (compression == Compression::kBfloat16) return std::ldexp(std::fabs(static_cast<double>(values[i])), -8);
  double most = 0;
  for (std::size_t j = i / 256 * 256; j < std::min(values.size(), i / 256 * 256 + 256); ++j)
    most = std::max(most, std::fabs(static_cast<double>(values[j])));
  // And the rounding of the floats that calculate it: the quotient is up to 127 steps, whose last bit is
  // 2^-17 of a step, and so is that of the product: half of each, and of the sum with 0.5, beside half a
  // step.
  return most / 127 / 2 * (1 + 4e-5);
}

TEST(Compression, LosesNoMoreThanItsBound) {
  std::mt19937 random(test_seed());
  for (const Compression compression : kAll) {
    for (const std::size_t count : {0U, 1U, 7U, 255U, 256U, 257U, 5000U}) {
      const auto values = random_values(random, count);
      const auto back = round_trip(compression, values);
      for (std::size_t i = 0; i < count; ++i) {
        ASSERT_LE(std::fabs(static_cast<double>(back[i]) - values[i]), bound(compression, values, i))
            << compression_name(compression) << " " << values[i] << " at " << i << " of " << count;
      }
    }
  }
}

TEST(Compression, KnowsItsSize) {
  EXPECT_EQ(encoded_bytes(Compression::kNone, 1000), 4000U);
  EXPECT_EQ(encoded_bytes(Compression::kBfloat16, 1000), 2000U);
  EXPECT_EQ(encoded_bytes(Compression::kInt8, 1000), 1000U + 4 * 4);
  EXPECT_EQ(encoded_bytes(Compression::kInt8, 0), 0U);
}

TEST(Compression, AddsWhatItDecodes) {
  std::mt19937 random(test_seed());
  for (const Compression compression : kAll) {
    const auto values = random_values(random, 700), left = random_values(random, 700);
    std::vector<std::byte> encoded(encoded_bytes(compression, values.size()));
    encode(compression, bytes_of(values.data()), values.size(), encoded.data(), nullptr);
    const auto back = round_trip(compression, values);
    std::vector<float> sum = left;
    decode_add(compression, encoded.data(), sum.size(), bytes_of(sum.data()), bytes_of(sum.data()));
    for (std::size_t i = 0; i < sum.size(); ++i) ASSERT_EQ(sum[i], left[i] + back[i]) << i;
  }
}

TEST(Compression, WithFeedbackNothingIsLostButTheLastResidual) {
  std::mt19937 random(test_seed());
  for (const Compression compression : kAll) {
    std::vector<float> residual(300, 0);
    std::vector<double> wanted(300, 0), got(300, 0);
    for (int round = 0; round < 50; ++round) {
      const auto values = random_values(random, 300);
      const auto back = round_trip(compression, values, residual.data());
      for (std::size_t i = 0; i < values.size(); ++i) {
        wanted[i] += static_cast<double>(values[i]);
        got[i] += static_cast<double>(back[i]);
      }
    }
    for (std::size_t i = 0; i < residual.size(); ++i) {
      // The differences of floats are rounded too, 50 times.
      ASSERT_NEAR(got[i] + static_cast<double>(residual[i]), wanted[i], 50 * 4096 * 0x1p-23) << i;
    }
  }
}

TEST(Compression, ShowsWhatIsNotFinite) {
  constexpr float kInfinity = std::numeric_limits<float>::infinity(),
                  kNan = std::numeric_limits<float>::quiet_NaN();
  for (const float special : {kInfinity, -kInfinity, kNan}) {
    std::vector<float> values(600, 1);
    values[300] = special;
    const auto sixteen = round_trip(Compression::kBfloat16, values);
    EXPECT_TRUE(std::isnan(special) ? std::isnan(sixteen[300]) : sixteen[300] == special);
    EXPECT_EQ(sixteen[299], 1);
    const auto eight = round_trip(Compression::kInt8, values);
    EXPECT_TRUE(std::isnan(eight[300]) && std::isnan(eight[256]) && std::isnan(eight[511]));
    EXPECT_EQ(eight[255], 1);
    EXPECT_EQ(eight[512], 1);
  }
  const auto zero = round_trip(Compression::kInt8, std::vector<float>(256, 0));
  EXPECT_EQ(zero, std::vector<float>(256, 0));
  const auto tiny =
      round_trip(Compression::kInt8, std::vector<float>(256, std::numeric_limits<float>::denorm_min()));
  for (const float value : tiny) EXPECT_TRUE(value >= 0 && value <= 1e-40F) << value;
}

TEST(Compression, HasNames) {
  EXPECT_EQ(compression_from_name("int8", "TOMBOLO_COMPRESSION"), Compression::kInt8);
  EXPECT_EQ(compression_from_name(compression_name(Compression::kBfloat16), "x"), Compression::kBfloat16);
  EXPECT_THROW(compression_from_name("fp4", "TOMBOLO_COMPRESSION"), Error);
}

}  // namespace
}  // namespace tombolo::collectives
