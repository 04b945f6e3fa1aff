// The matrix product's micro-kernels for any machine: 10 of 16 registers hold sums. There is no fused
// multiply-add, so that each product needs a register too.
#include <cstddef>
#include <utility>

#include "compute/gemm_kernels.h"

namespace tombolo::compute {
namespace {
constexpr std::size_t kLanes = 4, kTileRows = 5;
}

#include "compute/gemm_tile.inl"

const GemmKernels kGemmBaseline = kTable;

}  // namespace tombolo::compute
