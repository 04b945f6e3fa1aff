// The inputs of a call, its expected result, and the number of elements that differ from it.
#pragma once

#include <cstddef>
#include <cstdint>

#include "bench/perf/collective.h"

namespace tombolo::bench {

/// One round of checking. `seed` makes every round's inputs differ. All buffers hold elements of `type`.
struct Values {
  const Collective& collective;
  tomboloDataType_t type;
  tomboloRedOp_t op;
  std::uint64_t seed;
  RankContext context;

  /// What `rank` has at `index`: a small whole number, up to 10 for reductions, 1 or 2 for products, else up
  /// to 127. Sums of 8-bit floats are of such numbers that none is rounded.
  std::uint64_t input(int rank, std::size_t index) const noexcept;
  /// What kMulSum multiplies a rank's inputs by.
  static std::uint64_t factor(int rank) noexcept { return rank % 2 == 0 ? 2 : 1; }
  /// One element of `type`, the factor of this rank.
  void fill_factor(std::byte* element) const;
  /// This rank's input.
  void fill_input(std::byte* input, std::size_t elements) const;
  /// Computes the expected result. `expected` comes in with the values before the call, and keeps those where
  /// nothing is to be written.
  void fill_expected(std::byte* expected, std::size_t elements) const;
  /// Elements that differ. Floats of 16 bits and more that were reduced may be off by one rounding per rank.
  std::int64_t count_wrong(const std::byte* result, const std::byte* expected, std::size_t elements) const;
};

}  // namespace tombolo::bench
