// The matrix product's micro-kernels for AVX-512: 28 of 32 registers hold sums.
#include <cstddef>
#include <utility>

#include "compute/gemm_kernels.h"

#if defined(__x86_64__)
#include "compute/begin_avx512.inl"

namespace tombolo::compute {
namespace {
constexpr std::size_t kLanes = 16, kTileRows = 14;
}

#include "compute/gemm_tile.inl"

}  // namespace tombolo::compute
#include "compute/end_set.inl"

namespace tombolo::compute {

const GemmKernels kGemmAvx512 = kTable;

}  // namespace tombolo::compute
#endif
