// The floats of 8 and 16 bits, whose arithmetic is done in float.
#pragma once

#include <type_traits>

#include "collectives/data/float8.h"
#include "collectives/data/half.h"

namespace tombolo::collectives {

template <typename T>
inline constexpr bool kIsSmallFloat = std::is_same_v<T, Float16> || std::is_same_v<T, Bfloat16> ||
                                      std::is_same_v<T, Float8E4m3> || std::is_same_v<T, Float8E5m2>;

/// Rounds to nearest even.
template <typename T>
constexpr inline __attribute__((always_inline)) T from_float(float value) noexcept {
  static_assert(kIsSmallFloat<T>);
  if constexpr (std::is_same_v<T, Float16>) {
    return to_float16(value);
  } else if constexpr (std::is_same_v<T, Bfloat16>) {
    return to_bfloat16(value);
  } else if constexpr (std::is_same_v<T, Float8E4m3>) {
    return to_float8_e4m3(value);
  } else {
    return to_float8_e5m2(value);
  }
}

}  // namespace tombolo::collectives
