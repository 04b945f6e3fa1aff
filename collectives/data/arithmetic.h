// What each operator makes of two elements. The processor's kernels (kernels.cpp) and the GPU's
// (collectives/gpu/reduction.cuh) are compiled from this same source, so that they round alike. Everything is
// constexpr, which lets nvcc take it for the GPU too.
#pragma once

#include <cstddef>
#include <cstdint>
#include <type_traits>

#include "collectives/data/small_float.h"

namespace tombolo::collectives::arithmetic {

#define TOMBOLO_INLINE inline __attribute__((always_inline))

// Integers wrap around as unsigned ones do, for signed overflow is undefined.
template <typename T>
using Wrapping = std::make_unsigned_t<std::conditional_t<std::is_integral_v<T>, T, int>>;

struct Sum {
  template <typename T>
  static constexpr TOMBOLO_INLINE T apply(T left, T right) noexcept {
    if constexpr (std::is_integral_v<T>) {
      return static_cast<T>(static_cast<Wrapping<T>>(left) + static_cast<Wrapping<T>>(right));
    } else {
      return left + right;
    }
  }
};
struct Product {
  template <typename T>
  static constexpr TOMBOLO_INLINE T apply(T left, T right) noexcept {
    if constexpr (std::is_integral_v<T>) {
      // 16-bit operands would be promoted to int and overflow it.
      using Wide = std::conditional_t<(sizeof(T) < 4), std::uint32_t, Wrapping<T>>;
      return static_cast<T>(static_cast<Wide>(left) * static_cast<Wide>(right));
    } else {
      return left * right;
    }
  }
};
// A NaN on either side wins, so that the result does not depend on the order in which ranks are combined.
struct Min {
  template <typename T>
  static constexpr TOMBOLO_INLINE T apply(T left, T right) noexcept {
    if constexpr (std::is_floating_point_v<T>) {
      const T smaller = right < left ? right : left;
      return right != right ? right : smaller;
    } else {
      return right < left ? right : left;
    }
  }
};
struct Max {
  template <typename T>
  static constexpr TOMBOLO_INLINE T apply(T left, T right) noexcept {
    if constexpr (std::is_floating_point_v<T>) {
      const T larger = left < right ? right : left;
      return right != right ? right : larger;
    } else {
      return left < right ? right : left;
    }
  }
};
/// By a number of ranks. Integers truncate toward zero.
struct Quotient {
  template <typename T>
  static constexpr TOMBOLO_INLINE T apply(T value, std::uint64_t ranks) noexcept {
    if constexpr (std::is_floating_point_v<T>) {
      return value / static_cast<T>(ranks);
    } else if constexpr (std::is_signed_v<T>) {
      return static_cast<T>(static_cast<std::int64_t>(value) / static_cast<std::int64_t>(ranks));
    } else {
      return static_cast<T>(static_cast<std::uint64_t>(value) / ranks);
    }
  }
};

/// Of floats of 8 and 16 bits: in float, then rounded.
template <typename Op, typename T, typename Right>
constexpr TOMBOLO_INLINE T combine_one(T left, Right right) noexcept {
  if constexpr (!kIsSmallFloat<T>) {
    return Op::template apply<T>(left, right);
  } else if constexpr (kIsSmallFloat<Right>) {
    return from_float<T>(Op::template apply<float>(to_float(left), to_float(right)));
  } else {
    return from_float<T>(Op::template apply<float>(to_float(left), right));
  }
}

}  // namespace tombolo::collectives::arithmetic
