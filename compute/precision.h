// The number format in which matrix products take their operands.
#pragma once

#include <optional>
#include <string_view>

#include "compute/gemm.h"

namespace tombolo::compute {

enum class Precision {
  kFloat32,
  kBfloat16,  ///< operands are rounded to bfloat16; sums and results stay single precision
};

/// "fp32", "bf16".
std::string_view precision_name(Precision precision) noexcept;
std::optional<Precision> precision_from_name(std::string_view name) noexcept;

/// Throws kUnsupported where this process has no kernels for it, saying what is missing.
void check_precision(Precision precision);

/// The function that multiplies with that precision. Only after check_precision().
decltype(&multiply) multiply_of(Precision precision) noexcept;

}  // namespace tombolo::compute
