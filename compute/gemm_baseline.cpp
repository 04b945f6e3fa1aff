// The matrix product's micro-kernels for any machine: 10 of 16 registers hold sums, since a product needs one
// of its own.
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
