#include "collectives/data/premultiply.h"

#include <gtest/gtest.h>

#include <cmath>
#include <random>
#include <vector>

#include "base/randomized_test.h"
#include "collectives/data/small_float.h"
#include "collectives/testing/elements.h"

namespace tombolo::collectives {
namespace {

using test::Bytes;

/// One element at a time, in words that have nothing in common with the kernels: `value * factor`, then
/// `+ other`, each rounded to T.
template <typename T>
T product_of(T value, T factor) {
  if constexpr (kIsSmallFloat<T>) {
    return from_float<T>(to_float(value) * to_float(factor));
  } else if constexpr (std::is_integral_v<T>) {
    return static_cast<T>(static_cast<unsigned __int128>(value) * static_cast<unsigned __int128>(factor));
  } else {
    return value * factor;
  }
}
template <typename T>
T sum_of(T left, T right) {
  if constexpr (kIsSmallFloat<T>) {
    return from_float<T>(to_float(left) + to_float(right));
  } else if constexpr (std::is_integral_v<T>) {
    return static_cast<T>(static_cast<unsigned __int128>(left) + static_cast<unsigned __int128>(right));
  } else {
    volatile T sum = left + right;  // never fused with the product
    return sum;
  }
}

template <typename T>
bool same(const T& left, const T& right) {
  if constexpr (kIsSmallFloat<T>) {
    if (std::isnan(to_float(left)) && std::isnan(to_float(right))) return true;
  } else if constexpr (std::is_floating_point_v<T>) {
    if (std::isnan(left) && std::isnan(right)) return true;
  }
  return std::memcmp(&left, &right, sizeof(T)) == 0;
}

template <typename T>
T element_at(const Bytes& bytes, std::size_t skip, std::size_t index) {
  T value;
  std::memcpy(&value, bytes.data() + skip + index * sizeof(T), sizeof(T));
  return value;
}

/// Random bits as elements, or as numbers whose products and sums are rounded, of `count` after `skip` bytes.
template <typename T>
Bytes random_elements(std::size_t count, std::size_t skip, std::mt19937& random) {
  Bytes bytes(skip + count * sizeof(T));
  const bool any_bits = random() % 2 == 0;
  for (auto& byte : bytes) byte = static_cast<std::byte>(random());
  if (any_bits || std::is_integral_v<T>) return bytes;
  for (std::size_t i = 0; i < count; ++i) {
    const double number = (static_cast<double>(random() % 2000) - 1000) / 64;
    T value{};
    if constexpr (kIsSmallFloat<T>) {
      value = from_float<T>(static_cast<float>(number));
    } else {
      value = static_cast<T>(number * 1.1);
    }
    std::memcpy(bytes.data() + skip + i * sizeof(T), &value, sizeof(T));
  }
  return bytes;
}

template <typename T>
void check_products(DataType type, std::size_t count, std::mt19937& random) {
  const std::size_t skip = random() % 9;  // any alignment
  const Bytes left = random_elements<T>(count, skip, random), right = random_elements<T>(count, skip, random);
  const Bytes scalar = random_elements<T>(1, skip, random);
  const T factor = element_at<T>(scalar, skip, 0);
  const Factor given = Factor::at(scalar.data() + skip, type);
  const auto expect = [&](const Bytes& result, const auto& expected) {
    for (std::size_t i = 0; i < count; ++i)
      ASSERT_TRUE(same(element_at<T>(result, skip, i), expected(i)))
          << data_type_name(type) << " element " << i;
    ASSERT_TRUE(std::equal(result.begin(), result.begin() + static_cast<std::ptrdiff_t>(skip), left.begin()));
  };
  Bytes result = left;
  premultiply(result.data() + skip, right.data() + skip, count, type, given);
  expect(result, [&](std::size_t i) { return product_of(element_at<T>(right, skip, i), factor); });
  result = left;
  premultiply(result.data() + skip, result.data() + skip, count, type, given);
  expect(result, [&](std::size_t i) { return product_of(element_at<T>(left, skip, i), factor); });
  for (const auto which : {Premultiplied::kNone, Premultiplied::kLeft, Premultiplied::kRight}) {
    const auto expected = [&](std::size_t i) {
      const T a = element_at<T>(left, skip, i), b = element_at<T>(right, skip, i);
      return sum_of(which == Premultiplied::kLeft ? product_of(a, factor) : a,
                    which == Premultiplied::kRight ? product_of(b, factor) : b);
    };
    result = left;  // in place of the left operand
    premultiplied_sum(result.data() + skip, result.data() + skip, right.data() + skip, which, count, type,
                      given);
    expect(result, expected);
    Bytes other(left.size());
    std::copy(left.begin(), left.begin() + static_cast<std::ptrdiff_t>(skip), other.begin());
    premultiplied_sum(other.data() + skip, left.data() + skip, right.data() + skip, which, count, type,
                      given);
    expect(other, expected);
  }
}

TEST(Premultiply, RoundsTheProductThenTheSum) {
  std::mt19937 random(test_seed());
  for (int round = 0; round < test_rounds(4); ++round) {
    for (const std::size_t count : {0, 1, 2, 15, 17, 511, 512, 1023, 1025, 4096, 4097, 9001}) {
      check_products<std::int8_t>(DataType::kInt8, count, random);
      check_products<std::uint8_t>(DataType::kUint8, count, random);
      check_products<std::int16_t>(DataType::kInt16, count, random);
      check_products<std::uint16_t>(DataType::kUint16, count, random);
      check_products<std::int32_t>(DataType::kInt32, count, random);
      check_products<std::uint32_t>(DataType::kUint32, count, random);
      check_products<std::int64_t>(DataType::kInt64, count, random);
      check_products<std::uint64_t>(DataType::kUint64, count, random);
      check_products<Float16>(DataType::kFloat16, count, random);
      check_products<Bfloat16>(DataType::kBfloat16, count, random);
      check_products<float>(DataType::kFloat32, count, random);
      check_products<double>(DataType::kFloat64, count, random);
      check_products<Float8E4m3>(DataType::kFloat8E4m3, count, random);
      check_products<Float8E5m2>(DataType::kFloat8E5m2, count, random);
      if (testing::Test::HasFailure()) return;
    }
  }
}

}  // namespace
}  // namespace tombolo::collectives
