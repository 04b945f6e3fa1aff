// Products of bfloat16, with pairs of bfloat16 in place of the floats of the other micro-kernels.
// bfloat16_kernels() (instruction_set.h) says whether this process may call any of it.
#pragma once

#include <cstddef>

namespace tombolo::compute {

struct GemmKernels;

// Two bfloat16, rounded to nearest even (denormal floats become zero), take the place of one float, the one
// of the lower index in the lower half. Where a matrix lacks the second of a pair, that is zero.

/// Writes `to` (rows x ceil(length / 2) pairs) from rows x length floats: pairs of neighbours in a row.
void pair_along_rows(float* to, std::size_t to_stride, const float* from, std::size_t stride,
                     std::size_t rows, std::size_t length) noexcept;

/// Writes `to` (ceil(rows / 2) x length pairs) from rows x length floats: pairs of neighbours in a column.
void pair_rows(float* to, std::size_t to_stride, const float* from, std::size_t stride, std::size_t rows,
               std::size_t length) noexcept;

#if defined(__x86_64__)
/// The micro-kernels; their `inner` counts pairs.
extern const GemmKernels kGemmBfloat16;
#endif

}  // namespace tombolo::compute
