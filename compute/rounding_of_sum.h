// For tests of sums in single precision.
#pragma once

#include <cstddef>

namespace tombolo::compute {

/// The most by which a sum of so many products in single precision, added in any order, can differ from the
/// exact one. `magnitudes` is the sum of the terms' absolute values (Higham, "Accuracy and Stability of
/// Numerical Algorithms", section 3.1).
inline double rounding_of_sum(std::size_t terms, double magnitudes) noexcept {
  constexpr double kUnit = 0x1p-24;
  const double factor = static_cast<double>(terms + 1) * kUnit;
  return factor / (1 - factor) * magnitudes;
}

}  // namespace tombolo::compute
