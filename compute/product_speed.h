// How fast one core multiplies matrices, beside what its units could do.
#pragma once

#include <string>

#include "compute/instruction_set.h"
#include "compute/precision.h"

namespace tombolo::compute {

struct ProductSpeed {
  InstructionSet used = InstructionSet::kBaseline;  ///< the set that the kernels use
  InstructionSet most = InstructionSet::kBaseline;  ///< the largest set that the processor has
  double attained = 0;                              ///< FLOP/s of matrix products of a training step's size
  double peak = 0;  ///< FLOP/s of multiplications and additions in registers alone, by `most`
  Precision precision = Precision::kFloat32;  ///< of the products

  /// "avx512 kernels for bf16," of that precision, or "avx512 kernels, 108 GFLOP/s on one core (92 % of its
  /// units' 118)"
  std::string text() const;
};

/// Takes about `seconds` of this thread's processor time; what other work takes of the core does not count.
/// Throws as instruction_set() does, and as check_precision() does.
ProductSpeed measure_products(double seconds, Precision precision = Precision::kFloat32);

}  // namespace tombolo::compute
