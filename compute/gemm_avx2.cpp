// The matrix product's micro-kernels for AVX2: 12 of 16 registers hold sums.
#include <cstddef>
#include <utility>

#include "compute/gemm_kernels.h"

#if defined(__x86_64__)
#if defined(__clang__)
#pragma clang attribute push(__attribute__((target("arch=x86-64-v3"))), apply_to = function)
#else
#pragma GCC push_options
#pragma GCC target("arch=x86-64-v3")
#endif

namespace tombolo::compute {
namespace {
constexpr std::size_t kLanes = 8, kTileRows = 6;
}

#include "compute/gemm_tile.inl"

}  // namespace tombolo::compute
#if defined(__clang__)
#pragma clang attribute pop
#else
#pragma GCC pop_options
#endif

namespace tombolo::compute {

const GemmKernels kGemmAvx2 = kTable;

}  // namespace tombolo::compute
#endif
