// The matrix product's micro-kernels, compiled once per instruction set.
#pragma once

#include <cstddef>

#include "compute/gemm.h"

namespace tombolo::compute {

enum class InstructionSet;

/// A tile of a product: out (rows x columns) = scale left right + matrix + row; the last two may be null.
struct Tile {
  float* out;
  std::size_t out_stride;
  const float* left;  ///< rows x inner; where the left operand is transposed, inner x rows
  std::size_t left_stride;
  const float* right;  ///< inner x columns
  std::size_t right_stride;
  std::size_t inner;
  float scale;
  const float* matrix;
  std::size_t matrix_stride;
  const float* row;
};

struct GemmKernels {
  std::size_t rows;     ///< most rows of a tile; a tile has at least 1
  std::size_t columns;  ///< columns of every tile
  void (*tile)(const Tile& tile, std::size_t rows, bool left_transposed);
  /// Multiplies and adds in registers alone, `rounds` times, which attains the peak of a core. Returns a
  /// value that depends on all operations, and writes the number of floating-point operations to *operations.
  float (*registers_only)(std::size_t rounds, double* operations);
};

/// The largest tile of any instruction set, for buffers.
inline constexpr std::size_t kMostTileRows = 14, kMostTileColumns = 32;

/// compute::multiply (gemm.h) with given kernels, for which this processor must have the instructions.
void multiply_by(const GemmKernels& kernels, float* out, std::size_t out_stride, Operand left, Operand right,
                 std::size_t rows, std::size_t columns, std::size_t inner, const Epilogue& epilogue) noexcept;

/// The kernels of an instruction set that this processor has.
const GemmKernels& gemm_kernels(InstructionSet set) noexcept;

extern const GemmKernels kGemmBaseline;
#if defined(__x86_64__)
extern const GemmKernels kGemmAvx2;
extern const GemmKernels kGemmAvx512;
#endif

}  // namespace tombolo::compute
