#include "trainer/cuda/operations/product_layout.h"

#include <gtest/gtest.h>

#include <random>
#include <vector>

#include "base/randomized_test.h"

namespace tombolo::trainer::cuda {
namespace {

/// What a column-major library does with what it is told: op(left) op(right), and nothing else.
std::vector<float> library_product(const ColumnMajorProduct& p, const std::vector<float>& left,
                                   const std::vector<float>& right) {
  const auto element = [](const std::vector<float>& matrix, const ColumnMajor& shape, bool transposed,
                          std::size_t row, std::size_t column) {
    if (transposed) std::swap(row, column);
    EXPECT_LT(row, shape.rows);
    EXPECT_LT(column, shape.columns);
    return matrix.at(row + column * shape.stride);
  };
  std::vector<float> out(p.out.stride * p.out.columns);
  for (std::size_t row = 0; row < p.m; ++row)
    for (std::size_t column = 0; column < p.n; ++column)
      for (std::size_t k = 0; k < p.k; ++k)
        out.at(row + column * p.out.stride) += element(left, p.left, p.left_transposed, row, k) *
                                               element(right, p.right, p.right_transposed, k, column);
  return out;
}

TEST(ProductLayout, MakesARowMajorProductOfAColumnMajorOne) {
  std::mt19937 random(test_seed());
  std::uniform_int_distribution<std::size_t> size(1, 9);
  std::uniform_int_distribution<int> digit(-4, 4);
  for (int round = 0; round < test_rounds(200); ++round) {
    Product product;
    product.m = size(random);
    product.n = size(random);
    product.k = size(random);
    product.a_transposed = digit(random) > 0;
    product.b_transposed = digit(random) > 0;
    std::vector<float> a(product.m * product.k), b(product.k * product.n);
    for (float& value : a) value = static_cast<float>(digit(random));
    for (float& value : b) value = static_cast<float>(digit(random));

    std::vector<float> expected(product.m * product.n);
    for (std::size_t row = 0; row < product.m; ++row)
      for (std::size_t column = 0; column < product.n; ++column)
        for (std::size_t k = 0; k < product.k; ++k)
          expected[row * product.n + column] +=
              a[product.a_transposed ? k * product.m + row : row * product.k + k] *
              b[product.b_transposed ? column * product.k + k : k * product.n + column];
    EXPECT_EQ(library_product(column_major(product), b, a), expected)
        << product.m << " x " << product.n << " x " << product.k << (product.a_transposed ? " a^T" : "")
        << (product.b_transposed ? " b^T" : "");
  }
}

}  // namespace
}  // namespace tombolo::trainer::cuda
