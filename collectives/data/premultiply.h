// Pre-multiplied sums: each rank's contribution times a factor of its own, then summed.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <cstring>

#include "collectives/data/data_type.h"

namespace tombolo::collectives {

/// One element, of the type of what it multiplies.
struct Factor {
  std::array<std::byte, sizeof(std::uint64_t)> bytes{};

  /// Copies the element at that place, which may have any alignment.
  static Factor at(const void* element, DataType type) noexcept {
    Factor made;
    std::memcpy(made.bytes.data(), element, size_of(type));
    return made;
  }
};

/// Which operand of premultiplied_sum() is the contribution that the factor multiplies.
enum class Premultiplied : std::uint8_t { kNone, kLeft, kRight };

// A product is what combine() makes by kProduct: rounded to the type once, before it is added to anything.
// That holds wherever a contribution is first read, so that every way to carry out a call gives the same
// bits. (No fused multiply-add, which would not round.)

/// destination[i] = contribution[i] * factor; both may be the same.
void premultiply(void* destination, const void* contribution, std::size_t count, DataType type,
                 const Factor& factor) noexcept;
/// destination[i] = left[i] + right[i], after one of them has been multiplied; destination may be either.
/// Memory is gone through once.
void premultiplied_sum(void* destination, const void* left, const void* right, Premultiplied which,
                       std::size_t count, DataType type, const Factor& factor) noexcept;

}  // namespace tombolo::collectives
