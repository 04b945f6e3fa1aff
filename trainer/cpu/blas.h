// Row-major single-precision matrix products, by OpenBLAS.
#pragma once

#include <cstddef>

namespace tombolo::trainer::cpu {

/// A matrix in memory; `stride` floats from row to row. `transposed` says how it enters a product.
struct Operand {
  const float* data;
  std::size_t stride;
  bool transposed = false;
};

/// out (rows x columns) = scale left right + keep out. keep is 0 or 1.
void multiply(float* out, std::size_t out_stride, Operand left, Operand right, std::size_t rows,
              std::size_t columns, std::size_t inner, float scale = 1, float keep = 0) noexcept;

/// Of every later product of this process (OpenBLAS keeps one setting).
void set_multiply_threads(int threads) noexcept;

}  // namespace tombolo::trainer::cpu
