// Inputs of reductions in which every special value meets every other, and what the processor's kernels make
// of them: the GPU's must make the same. Tests run these on an emulation (gpu/reduction_test.cpp) and on a
// GPU (tests/gpu/reduction_check.cpp).
#pragma once

#include <cmath>
#include <cstring>
#include <random>
#include <vector>

#include "collectives/data/premultiply.h"
#include "collectives/gpu/reducer.h"
#include "collectives/testing/elements.h"

namespace tombolo::collectives::test {

inline constexpr gpu::Operation kAllOperations[] = {
    gpu::Operation::kSum,      gpu::Operation::kProduct,
    gpu::Operation::kMin,      gpu::Operation::kMax,
    gpu::Operation::kMultiply, gpu::Operation::kSumOfMultipliedLeft,
    gpu::Operation::kDivide,   gpu::Operation::kSumOfMultipliedRight};

/// Whether the element is a NaN; integers are none.
inline bool is_nan(const std::byte* at, DataType type) {
  const auto of = [at](auto typed) {
    std::memcpy(&typed, at, sizeof typed);
    return typed;
  };
  switch (type) {
    case DataType::kFloat16:
      return std::isnan(to_float(of(Float16{})));
    case DataType::kBfloat16:
      return std::isnan(to_float(of(Bfloat16{})));
    case DataType::kFloat32:
      return std::isnan(of(float{}));
    case DataType::kFloat64:
      return std::isnan(of(double{}));
    case DataType::kFloat8E4m3:
      return std::isnan(to_float(of(Float8E4m3{})));
    case DataType::kFloat8E5m2:
      return std::isnan(to_float(of(Float8E5m2{})));
    default:
      return false;
  }
}

/// Bits of one element: where the sign, the exponent and the mantissa begin and end, and anywhere.
inline std::vector<std::uint64_t> special_bits(DataType type, std::mt19937_64& random) {
  const std::size_t bits = 8 * size_of(type);
  const int mantissa = type == DataType::kFloat8E4m3   ? 3
                       : type == DataType::kFloat8E5m2 ? 2
                       : type == DataType::kFloat16    ? 10
                       : type == DataType::kBfloat16   ? 7
                       : type == DataType::kFloat64    ? 52
                                                       : 23;
  const std::uint64_t one = 1, sign = one << (bits - 1);
  const std::uint64_t infinity = sign - (one << (mantissa < static_cast<int>(bits) ? mantissa : 0));
  std::vector<std::uint64_t> all{
      0,
      1,
      2,
      (one << (bits / 2)) - 1,
      (one << (bits - 1)) - 1,  // the largest integer; a quiet NaN
      infinity,                 // of e4m3 a large number
      infinity - 1,             // the largest finite number
      infinity + 1,             // a signalling NaN
      infinity + (infinity >> 1 & ~infinity),
      (one << mantissa % (bits - 1)),     // the least normal number
      (one << mantissa % (bits - 1)) - 1  // the largest subnormal one
  };
  for (int i = 0; i < 12; ++i) all.push_back(random());
  const std::size_t positive = all.size();
  for (std::size_t i = 0; i < positive; ++i) all.push_back(all[i] ^ sign);
  return all;
}

/// Of `type`: each special value beside each, then random ones.
struct ReductionCase {
  DataType type;
  std::size_t count;
  Bytes left, right;
  Factor factor;
  std::size_t ranks = 1;

  ReductionCase(DataType of, std::size_t random_elements, std::mt19937_64& random) : type(of) {
    const auto values = special_bits(type, random);
    const auto add = [this](Bytes& to, std::uint64_t bits) {
      const auto* at = reinterpret_cast<const std::byte*>(&bits);
      to.insert(to.end(), at, at + size_of(type));
    };
    for (const std::uint64_t a : values) {
      for (const std::uint64_t b : values) {
        add(left, a);
        add(right, b);
      }
    }
    for (std::size_t i = 0; i < random_elements; ++i) {
      add(left, random());
      add(right, random());
    }
    count = left.size() / size_of(type);
    std::memcpy(factor.bytes.data(), &values[random() % values.size()], size_of(type));
    ranks = 1 + random() % 9;
  }

  std::uint64_t operand(gpu::Operation operation) const {
    std::uint64_t value = ranks;
    if (operation != gpu::Operation::kDivide) std::memcpy(&value, factor.bytes.data(), sizeof value);
    return value;
  }

  /// What the processor makes of it.
  Bytes expected(gpu::Operation operation) const {
    Bytes made = left;
    const auto by = [&](ReduceOp op) { combine(made.data(), right.data(), count, type, op); };
    switch (operation) {
      case gpu::Operation::kSum:
        by(ReduceOp::kSum);
        break;
      case gpu::Operation::kProduct:
        by(ReduceOp::kProduct);
        break;
      case gpu::Operation::kMin:
        by(ReduceOp::kMin);
        break;
      case gpu::Operation::kMax:
        by(ReduceOp::kMax);
        break;
      case gpu::Operation::kSumOfMultipliedLeft:
        premultiplied_sum(made.data(), left.data(), right.data(), Premultiplied::kLeft, count, type, factor);
        break;
      case gpu::Operation::kSumOfMultipliedRight:
        premultiplied_sum(made.data(), left.data(), right.data(), Premultiplied::kRight, count, type, factor);
        break;
      case gpu::Operation::kMultiply:
        premultiply(made.data(), left.data(), count, type, factor);
        break;
      case gpu::Operation::kDivide:
        divide(made.data(), count, type, ranks);
        break;
    }
    return made;
  }

  /// Whether the bits of that element are the processor's own whim: it takes either of two NaNs.
  bool is_either(gpu::Operation operation, std::size_t element) const {
    const std::size_t at = element * size_of(type);
    const bool left_is = is_nan(&left[at], type), right_is = is_nan(&right[at], type);
    const bool factor_is = is_nan(factor.bytes.data(), type);
    Bytes product(size_of(type));
    const auto with_factor = [&](const Bytes& of, bool of_is, bool other_is) {
      premultiply(product.data(), &of[at], 1, type, factor);
      return (of_is && factor_is) || (is_nan(product.data(), type) && other_is);
    };
    switch (operation) {
      case gpu::Operation::kSum:
      case gpu::Operation::kProduct:
        return left_is && right_is;
      case gpu::Operation::kSumOfMultipliedLeft:
        return with_factor(left, left_is, right_is);
      case gpu::Operation::kSumOfMultipliedRight:
        return with_factor(right, right_is, left_is);
      case gpu::Operation::kMultiply:
        return left_is && factor_is;
      case gpu::Operation::kMin:
      case gpu::Operation::kMax:
      case gpu::Operation::kDivide:
        break;
    }
    return false;
  }

  /// The first element whose bits are not the processor's; `count` where there is none.
  std::size_t first_wrong(gpu::Operation operation, const std::byte* found) const {
    const Bytes wanted = expected(operation);
    const std::size_t bytes = size_of(type);
    for (std::size_t i = 0; i < count; ++i) {
      if (std::memcmp(found + i * bytes, &wanted[i * bytes], bytes) == 0) continue;
      if (!is_either(operation, i) || !is_nan(found + i * bytes, type)) return i;
    }
    return count;
  }
};

}  // namespace tombolo::collectives::test
