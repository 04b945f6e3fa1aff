// A row-major product in the words of a column-major library (BLAS, cuBLASLt). A row-major matrix is, as it
// lies in memory, the transposed column-major one; so what is asked for is
//   out^T (n x m) = b^T (n x k) a^T (k x m),
// with b as the library's left factor and a as its right one.
#pragma once

#include <cstddef>

#include "trainer/cuda/operations/operation.h"

namespace tombolo::trainer::cuda {

/// A matrix as the library is told of it: rows x columns as stored, `stride` elements from column to column.
struct ColumnMajor {
  std::size_t rows, columns, stride;
};

struct ColumnMajorProduct {
  std::size_t m, n, k;  ///< the library's: out is m x n
  ColumnMajor left, right, out;
  bool left_transposed, right_transposed;
};

/// Left is the operation's b and right its a. A vector of n elements is then one per row of the library's out
/// (its bias), and the sum of a over k is that of its right factor (its bias gradient of B).
constexpr ColumnMajorProduct column_major(const Product& product) noexcept {
  const std::size_t m = product.m, n = product.n, k = product.k;
  return {.m = n,
          .n = m,
          .k = k,
          .left = product.b_transposed ? ColumnMajor{k, n, k} : ColumnMajor{n, k, n},
          .right = product.a_transposed ? ColumnMajor{m, k, m} : ColumnMajor{k, m, k},
          .out = {n, m, n},
          .left_transposed = product.b_transposed,
          .right_transposed = product.a_transposed};
}

}  // namespace tombolo::trainer::cuda
