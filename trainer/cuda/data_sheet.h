// What GPUs' data sheets promise.
#pragma once

#include <string_view>

#include "trainer/cuda/operations/operation.h"

namespace tombolo::trainer::cuda {

/// Floating-point operations per second of dense products of a GPU by the name that CUDA gives it: of bf16
/// with sums in fp32 on Tensor Cores, and of fp32 without TF32. 0 where the name is not known.
double data_sheet_peak(std::string_view gpu, Element element) noexcept;

}  // namespace tombolo::trainer::cuda
