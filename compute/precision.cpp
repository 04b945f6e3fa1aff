#include "compute/precision.h"

#include "base/error.h"
#include "compute/instruction_set.h"

namespace tombolo::compute {

std::string_view precision_name(Precision precision) noexcept {
  return precision == Precision::kBfloat16 ? "bf16" : "fp32";
}

std::optional<Precision> precision_from_name(std::string_view name) noexcept {
  for (const Precision precision : {Precision::kFloat32, Precision::kBfloat16})
    if (precision_name(precision) == name) return precision;
  return std::nullopt;
}

void check_precision(Precision precision) {
  if (precision == Precision::kFloat32 || bfloat16_kernels()) return;
  fail(Cause::kUnsupported,
       "bf16 products need a processor with AVX512_BF16 (AMD from Zen 4, Intel from Cooper Lake on); {}. "
       "Take fp32",
       multiplies_bfloat16(read_cpuid()) ? "this one has it, but TOMBOLO_INSTRUCTION_SET allows less"
                                         : "this one has none");
}

decltype(&multiply) multiply_of(Precision precision) noexcept {
  return precision == Precision::kBfloat16 ? &multiply_bfloat16 : &multiply;
}

}  // namespace tombolo::compute
