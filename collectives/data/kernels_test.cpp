#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <cstring>
#include <initializer_list>
#include <random>
#include <utility>
#include <vector>

#include "base/randomized_test.h"
#include "collectives/data/data_type.h"
#include "collectives/data/small_float.h"
#include "collectives/testing/test_support.h"

namespace tombolo::collectives {
namespace {

using test::kAllOps;
using test::kAllTypes;

// The nearest float16 found by looking at every one: slow, and nothing in common with the code under test.
std::uint16_t nearest_half(double value) {
  if (std::isnan(value)) return 0x7e00;
  const std::uint16_t sign = std::signbit(value) ? 0x8000 : 0;
  const double magnitude = std::fabs(value);
  if (magnitude >= 65520) return static_cast<std::uint16_t>(sign | 0x7c00);
  const auto decode = [](int bits) {
    const int exponent = bits >> 10, mantissa = bits & 0x3ff;
    return exponent == 0 ? std::ldexp(mantissa, -24) : std::ldexp(1024 + mantissa, exponent - 25);
  };
  int low = 0, high = 0x7c00;  // decode(low) <= magnitude < decode(high), with 0x7c00 standing for 65536
  while (high - low > 1) {
    const int middle = (low + high) / 2;
    (decode(middle) <= magnitude ? low : high) = middle;
  }
  const double below = magnitude - decode(low), above = decode(high) - magnitude;
  const int best = below < above || (below == above && low % 2 == 0) ? low : high;
  return static_cast<std::uint16_t>(sign | best);
}

/// The nearest value of an 8-bit float, found by looking at all of them.
template <typename T>
std::uint8_t nearest_float8(float value) {
  const std::uint8_t sign = std::signbit(value) ? 0x80 : 0;
  std::uint8_t best = 0;
  double least = HUGE_VAL;
  for (int bits = 0; bits < 0x80; ++bits) {
    const double candidate = to_float(T{static_cast<std::uint8_t>(bits)});
    if (!std::isfinite(candidate)) continue;  // saturates
    const double distance = std::fabs(candidate - std::min(std::fabs(static_cast<double>(value)), 1e9));
    if (distance < least || (distance == least && bits % 2 == 0)) {
      least = distance;
      best = static_cast<std::uint8_t>(bits);
    }
  }
  return best | sign;
}

double scalar(double left, double right, ReduceOp op) {
  switch (op) {
    case ReduceOp::kSum:
    case ReduceOp::kAverage:
      return left + right;
    case ReduceOp::kProduct:
      return left * right;
    case ReduceOp::kMin:
      return std::isnan(left) || std::isnan(right) ? NAN : std::min(left, right);
    case ReduceOp::kMax:
      return std::isnan(left) || std::isnan(right) ? NAN : std::max(left, right);
  }
  return 0;
}

template <typename T>
T integer_reference(T left, T right, ReduceOp op) {
  // 128 bits hold any sum or product of two 64-bit values; the cast wraps as the kernels do.
  const auto a = static_cast<__int128>(left), b = static_cast<__int128>(right);
  switch (op) {
    case ReduceOp::kSum:
    case ReduceOp::kAverage:
      return static_cast<T>(a + b);
    case ReduceOp::kProduct:
      return static_cast<T>(static_cast<unsigned __int128>(a) * static_cast<unsigned __int128>(b));
    case ReduceOp::kMin:
      return std::min(left, right);
    case ReduceOp::kMax:
      return std::max(left, right);
  }
  return T{};
}

template <typename T>
void expect_equal_element(const std::byte* result, const std::byte* left, const std::byte* right, ReduceOp op,
                          DataType type) {
  T a, b, c;
  std::memcpy(&a, left, sizeof(T));
  std::memcpy(&b, right, sizeof(T));
  std::memcpy(&c, result, sizeof(T));
  if constexpr (kIsSmallFloat<T>) {
    const double expected = scalar(to_float(a), to_float(b), op);
    if (std::isnan(static_cast<float>(expected))) {
      ASSERT_TRUE(std::isnan(to_float(c))) << data_type_name(type);
    } else if constexpr (std::is_same_v<T, Float16>) {
      // The exact sum or product of two halves fits a float or double, so one rounding is the truth; a sum of
      // very different exponents is first rounded to float.
      ASSERT_EQ(c.bits, nearest_half(static_cast<float>(expected)))
          << reduce_op_name(op) << " " << to_float(a) << " " << to_float(b);
    } else if constexpr (sizeof(T) == 1) {
      ASSERT_EQ(c.bits, nearest_float8<T>(static_cast<float>(expected)))
          << data_type_name(type) << " " << reduce_op_name(op) << " " << to_float(a) << " " << to_float(b);
    } else {
      ASSERT_EQ(c.bits, to_bfloat16(static_cast<float>(expected)).bits) << reduce_op_name(op);
    }
  } else if constexpr (std::is_floating_point_v<T>) {
    const T expected = static_cast<T>(op == ReduceOp::kProduct                           ? a * b
                                      : op == ReduceOp::kSum || op == ReduceOp::kAverage ? a + b
                                                                                         : scalar(a, b, op));
    if (std::isnan(expected)) {
      ASSERT_TRUE(std::isnan(c)) << data_type_name(type) << " " << reduce_op_name(op);
    } else {
      ASSERT_EQ(c, expected) << data_type_name(type) << " " << reduce_op_name(op);
    }
  } else {
    ASSERT_EQ(c, integer_reference<T>(a, b, op)) << data_type_name(type) << " " << reduce_op_name(op);
  }
}

void expect_equal(const std::byte* result, const std::byte* left, const std::byte* right, ReduceOp op,
                  DataType type) {
  switch (type) {
    case DataType::kInt8:
      return expect_equal_element<std::int8_t>(result, left, right, op, type);
    case DataType::kUint8:
      return expect_equal_element<std::uint8_t>(result, left, right, op, type);
    case DataType::kInt16:
      return expect_equal_element<std::int16_t>(result, left, right, op, type);
    case DataType::kUint16:
      return expect_equal_element<std::uint16_t>(result, left, right, op, type);
    case DataType::kInt32:
      return expect_equal_element<std::int32_t>(result, left, right, op, type);
    case DataType::kUint32:
      return expect_equal_element<std::uint32_t>(result, left, right, op, type);
    case DataType::kInt64:
      return expect_equal_element<std::int64_t>(result, left, right, op, type);
    case DataType::kUint64:
      return expect_equal_element<std::uint64_t>(result, left, right, op, type);
    case DataType::kFloat16:
      return expect_equal_element<Float16>(result, left, right, op, type);
    case DataType::kBfloat16:
      return expect_equal_element<Bfloat16>(result, left, right, op, type);
    case DataType::kFloat32:
      return expect_equal_element<float>(result, left, right, op, type);
    case DataType::kFloat64:
      return expect_equal_element<double>(result, left, right, op, type);
    case DataType::kFloat8E4m3:
      return expect_equal_element<Float8E4m3>(result, left, right, op, type);
    case DataType::kFloat8E5m2:
      return expect_equal_element<Float8E5m2>(result, left, right, op, type);
  }
}

TEST(Kernels, CombineEveryTypeAndOperatorAsAScalarLoopDoes) {
  std::mt19937 random(test_seed());
  for (DataType type : kAllTypes) {
    for (ReduceOp op : kAllOps) {
      for (std::size_t count : {0UL, 1UL, 7UL, 8UL, 15UL, 16UL, 17UL, 33UL, 255UL}) {
        // Random bits: NaNs, infinities and subnormals included. Odd starts: nothing may assume alignment.
        const std::size_t size = size_of(type), bytes = count * size, shift = random() % 7;
        std::vector<std::byte> left(bytes + 8), right(bytes + 8), result(bytes + 9, std::byte{0x5a});
        for (auto& one : left) one = static_cast<std::byte>(random());
        for (auto& one : right) one = static_cast<std::byte>(random());
        combine(result.data() + shift, left.data() + shift, right.data() + shift, count, type, op);
        for (std::size_t i = 0; i < count; ++i) {
          expect_equal(result.data() + shift + i * size, left.data() + shift + i * size,
                       right.data() + shift + i * size, op, type);
          if (HasFatalFailure()) return;
        }
        ASSERT_EQ(result[shift + bytes], std::byte{0x5a}) << "wrote past the end";
        std::vector<std::byte> in_place = left;
        combine(in_place.data() + shift, right.data() + shift, count, type, op);
        ASSERT_EQ(0, std::memcmp(in_place.data() + shift, result.data() + shift, bytes));
      }
    }
  }
}

TEST(Kernels, ConvertEveryFloat16ThereAndBack) {
  for (std::uint32_t bits = 0; bits < 0x10000; ++bits) {
    const Float16 half{static_cast<std::uint16_t>(bits)};
    const Float16 back = to_float16(to_float(half));
    if ((bits & 0x7c00) == 0x7c00 && (bits & 0x3ff) != 0) {
      ASSERT_TRUE(std::isnan(to_float(back)));
    } else {
      ASSERT_EQ(back.bits, bits);
    }
  }
}

template <typename T>
void expect_float8(std::initializer_list<std::pair<int, float>> values) {
  for (const auto& [bits, value] : values) {
    EXPECT_EQ(to_float(T{static_cast<std::uint8_t>(bits)}), value) << bits;
    EXPECT_EQ(to_float(T{static_cast<std::uint8_t>(bits | 0x80)}), -value) << bits;
  }
}

// Values of the OCP 8-bit floating point specification.
TEST(Kernels, KnowTheValuesOfFloat8) {
  expect_float8<Float8E4m3>(
      {{0, 0.0F}, {1, 0x1p-9F}, {7, 0x1.cp-7F}, {8, 0x1p-6F}, {0x38, 1.0F}, {0x7e, 448.0F}});
  EXPECT_TRUE(std::isnan(to_float(Float8E4m3{0x7f})) && std::isnan(to_float(Float8E4m3{0xff})));
  expect_float8<Float8E5m2>({{0, 0.0F},
                             {1, 0x1p-16F},
                             {3, 0x1.8p-15F},
                             {4, 0x1p-14F},
                             {0x3c, 1.0F},
                             {0x7b, 57344.0F},
                             {0x7c, HUGE_VALF}});
  EXPECT_TRUE(std::isnan(to_float(Float8E5m2{0x7d})) && std::isnan(to_float(Float8E5m2{0xff})));
}

template <typename T>
void round_float8_to_nearest_even(float largest) {
  std::mt19937 random(test_seed());
  for (int i = 0; i < test_rounds(20000); ++i) {
    // Exponents around the whole range and beyond, and many ties.
    const auto value = static_cast<float>(
        std::ldexp(static_cast<double>(random() % 64) - 32, static_cast<int>(random() % 40) - 24));
    ASSERT_EQ(from_float<T>(value).bits, nearest_float8<T>(value)) << value;
    const auto any = std::bit_cast<float>(static_cast<std::uint32_t>(random()));
    if (!std::isnan(any)) {
      ASSERT_EQ(from_float<T>(any).bits, nearest_float8<T>(any)) << any;
    }
  }
  for (const float beyond : {largest * 1.5F, 1e30F, HUGE_VALF}) {
    EXPECT_EQ(to_float(from_float<T>(beyond)), largest);
    EXPECT_EQ(to_float(from_float<T>(-beyond)), -largest);
  }
  EXPECT_TRUE(std::isnan(to_float(from_float<T>(NAN))));
}

TEST(Kernels, RoundFloat8ToNearestEvenAndSaturate) {
  round_float8_to_nearest_even<Float8E4m3>(448.0F);
  round_float8_to_nearest_even<Float8E5m2>(57344.0F);
}

TEST(Kernels, RoundFloat16ToNearestEven) {
  std::mt19937 random(test_seed());
  for (int i = 0; i < 200000; ++i) {
    // Exponents around float16's whole range, and many ties.
    const double value =
        std::ldexp(static_cast<double>(random() % 8192) - 4096, static_cast<int>(random() % 40) - 32);
    ASSERT_EQ(to_float16(static_cast<float>(value)).bits, nearest_half(value)) << value;
  }
  EXPECT_EQ(to_float16(65519.0F).bits, 0x7bff);
  EXPECT_EQ(to_float16(65520.0F).bits, 0x7c00);
  EXPECT_EQ(to_float16(0x1p-25F).bits, 0);  // tie between 0 and the least subnormal: even
  EXPECT_EQ(to_float16(0x1.8p-25F).bits, 1);
}

TEST(Kernels, RoundBfloat16ToNearestEvenAndKeepNan) {
  EXPECT_EQ(to_bfloat16(1.0F).bits, 0x3f80);
  EXPECT_EQ(to_bfloat16(std::bit_cast<float>(0x3f808000U)).bits, 0x3f80);  // tie, even below
  EXPECT_EQ(to_bfloat16(std::bit_cast<float>(0x3f818000U)).bits, 0x3f82);  // tie, even above
  EXPECT_EQ(to_bfloat16(std::bit_cast<float>(0x3f808001U)).bits, 0x3f81);
  EXPECT_TRUE(std::isnan(to_float(to_bfloat16(std::bit_cast<float>(0x7f800001U)))));
}

TEST(Kernels, ANanWinsMinAndMaxFromEitherSide) {
  for (ReduceOp op : {ReduceOp::kMin, ReduceOp::kMax}) {
    float left[2] = {NAN, 1}, right[2] = {1, NAN}, result[2];
    combine(result, left, right, 2, DataType::kFloat32, op);
    EXPECT_TRUE(std::isnan(result[0]) && std::isnan(result[1]));
  }
}

TEST(Kernels, DivideIntegersTowardZero) {
  std::int32_t values[3] = {-7, 7, 9};
  divide(values, 3, DataType::kInt32, 2);
  EXPECT_EQ(values[0], -3);
  EXPECT_EQ(values[1], 3);
  EXPECT_EQ(values[2], 4);
  std::uint64_t large = ~0ULL;
  divide(&large, 1, DataType::kUint64, 3);
  EXPECT_EQ(large, ~0ULL / 3);
}

TEST(DataTypes, AreFoundByTheirNames) {
  for (DataType type : kAllTypes) EXPECT_EQ(data_type_from_name(data_type_name(type)), type);
  for (ReduceOp op : kAllOps) EXPECT_EQ(reduce_op_from_name(reduce_op_name(op)), op);
  EXPECT_FALSE(data_type_from_name("fp13"));
  EXPECT_FALSE(reduce_op_from_name("median"));
}

}  // namespace
}  // namespace tombolo::collectives
