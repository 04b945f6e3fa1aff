// Row-major single-precision matrix products that are fast at the sizes of one layer's micro-batch, on any
// processor. compute/ owns arithmetic on this machine's processors: which instructions they have, how many
// there are, matrix products.
#pragma once

#include <cstddef>

namespace tombolo::compute {

/// A matrix in memory; `stride` floats from row to row. `transposed` says how it enters a product.
struct Operand {
  const float* data;
  std::size_t stride;
  bool transposed = false;
};

/// What is done to a product before it is stored: it is multiplied by `scale`; then a matrix and a row are
/// added, where they are given.
struct Epilogue {
  float scale = 1;
  const float* matrix = nullptr;  ///< has the product's shape; may be the output itself
  std::size_t matrix_stride = 0;
  const float* row = nullptr;  ///< added to every row: a bias
};

/// Computes out (rows x columns) = scale left right + matrix + row. `out` must overlap neither operand, nor
/// `matrix` unless the two are the same. On one machine equal operands give equal bits: the order of an
/// element's terms depends only on `inner`, not on threads. (Instruction sets differ in where they round.)
/// Any thread may call it, once instruction_set() has returned. A thread's first call takes 1.2 MiB for
/// packed operands; where that memory cannot be had the process ends.
void multiply(float* out, std::size_t out_stride, Operand left, Operand right, std::size_t rows,
              std::size_t columns, std::size_t inner, const Epilogue& epilogue = {}) noexcept;

/// The same with operands that are rounded to bfloat16 first (to nearest even; denormals to zero), which have
/// half the bits and twice the products per second. Sums, epilogue and result are single precision. Only
/// where bfloat16_kernels() is true. A thread keeps the memory for copies of its operands for its next
/// product.
void multiply_bfloat16(float* out, std::size_t out_stride, Operand left, Operand right, std::size_t rows,
                       std::size_t columns, std::size_t inner, const Epilogue& epilogue = {}) noexcept;

/// While an object lives, products of the calling thread are divided among this many threads (at least 1);
/// without one the caller computes alone. The other threads belong to the calling thread and end with it.
class MultiplyThreads {
 public:
  explicit MultiplyThreads(int threads) noexcept;
  ~MultiplyThreads();
  MultiplyThreads(const MultiplyThreads&) = delete;
  MultiplyThreads& operator=(const MultiplyThreads&) = delete;

 private:
  int before_;
};

}  // namespace tombolo::compute
