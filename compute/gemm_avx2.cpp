// The matrix product's micro-kernels for AVX2: 12 of 16 registers hold sums.
#include <cstddef>
#include <utility>

#include "compute/gemm_kernels.h"

#if defined(__x86_64__)
#include "compute/begin_avx2.inl"

namespace tombolo::compute {
namespace {
constexpr std::size_t kLanes = 8, kTileRows = 6;
}

#include "compute/gemm_tile.inl"

}  // namespace tombolo::compute
#include "compute/end_set.inl"

namespace tombolo::compute {

const GemmKernels kGemmAvx2 = kTable;

}  // namespace tombolo::compute
#endif
