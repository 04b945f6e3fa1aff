// How fast one core multiplies matrices, compared with the peak of its units.
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

  /// The result in words: "avx512 kernels, 108 GFLOP/s on one core (92 % of its units' 118)", or "avx512
  /// kernels for bf16, ..." with that precision.
  std::string text() const;
};

/// Measures for about `seconds` of this thread's processor time; time that other work takes on the core does
/// not count. Throws as instruction_set() and check_precision() do.
ProductSpeed measure_products(double seconds, Precision precision = Precision::kFloat32);

}  // namespace tombolo::compute
