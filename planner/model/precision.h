// In which type of value matrices are multiplied.
#pragma once

#include <optional>
#include <string_view>

namespace tombolo::planner {

/// The type decides the peak rate of matrix products and the framework's flags. How wide values are stored is
/// Model::bytes_per_value.
enum class Precision {
  kFp32,
  kTf32,
  kFp16,
  kBf16,
  kFp8Hybrid,  ///< E4M3 forward, E5M2 for gradients
  kFp8E4m3,    ///< E4M3 throughout
};
/// "fp32", "tf32", "fp16", "bf16", "fp8-hybrid", "fp8-e4m3".
std::string_view precision_name(Precision precision) noexcept;
std::optional<Precision> precision_from_name(std::string_view name) noexcept;

/// Whether matrices are multiplied in one of fp8's formats.
constexpr bool is_fp8(Precision precision) noexcept {
  return precision == Precision::kFp8Hybrid || precision == Precision::kFp8E4m3;
}

}  // namespace tombolo::planner
