// The trainer's matrix products, in the shapes of a layer.
#include <benchmark/benchmark.h>
#include <fmt/format.h>

#include <cstddef>
#include <string>
#include <vector>

#include "bench/micro/subjects.h"
#include "compute/gemm.h"

namespace tombolo::bench::micro {
namespace {

using compute::multiply;

/// out (rows x columns) = left right, with the strides that the matrices have in the trainer.
struct Product {
  std::string name;
  std::size_t rows, columns, inner;
  std::size_t out_stride, left_stride, right_stride;
  bool left_transposed, right_transposed;
  bool keep;  // the product is added to the values of out
};

void measure_product(benchmark::State& state, const Product& product) {
  const auto floats = [](std::size_t rows, std::size_t columns, bool transposed, std::size_t stride) {
    return std::vector<float>((transposed ? columns : rows) * stride, 0.5F);
  };
  const auto left = floats(product.rows, product.inner, product.left_transposed, product.left_stride);
  const auto right = floats(product.inner, product.columns, product.right_transposed, product.right_stride);
  // The output starts from zeros. Sums that are kept grow too little over the iterations to leave a float's
  // range.
  std::vector<float> out(product.rows * product.out_stride);
  compute::Epilogue kept;
  if (product.keep) {
    kept.matrix = out.data();
    kept.matrix_stride = product.out_stride;
  }
  for (auto _ : state) {
    multiply(out.data(), product.out_stride, {left.data(), product.left_stride, product.left_transposed},
             {right.data(), product.right_stride, product.right_transposed}, product.rows, product.columns,
             product.inner, kept);
    benchmark::ClobberMemory();
  }
  const double operations = 2.0 * static_cast<double>(product.rows * product.columns * product.inner);
  state.counters["GFLOP/s"] =
      benchmark::Counter(operations / 1e9, benchmark::Counter::kIsIterationInvariantRate);
}

/// The products of the MLP's first matrix, the largest of a layer: `width` inputs, four times as many
/// outputs.
std::vector<Product> linear_products(std::size_t width, std::size_t tokens) {
  const std::size_t wide = 4 * width;
  const auto name = [&](const char* pass) {
    return fmt::format("matrix_products/{}/width:{}/tokens:{}", pass, width, tokens);
  };
  return {
      {name("forward"), tokens, wide, width, wide, width, width, false, true, true},
      {name("input_gradient"), tokens, width, wide, width, wide, width, false, false, false},
      {name("weight_gradient"), wide, width, tokens, width, wide, width, true, false, true},
  };
}

/// The products of one head: a block of 32 queries against 128 keys, all in rows of queries, keys and values
/// side by side.
std::vector<Product> attention_products(std::size_t head_size) {
  constexpr std::size_t kBlock = 32, kKeys = 128, kHeads = 4;
  const std::size_t width = kHeads * head_size, stride = 3 * width;
  const auto name = [&](const char* what) {
    return fmt::format("matrix_products/attention_{}/head:{}", what, head_size);
  };
  return {
      {name("scores"), kBlock, kKeys, head_size, kKeys, stride, stride, false, true, false},
      {name("values"), kBlock, head_size, kKeys, width, kKeys, stride, false, false, false},
      {name("key_gradient"), kKeys, head_size, kBlock, stride, kKeys, stride, true, false, true},
  };
}

}  // namespace

void register_matrix_products() {
  std::vector<Product> products;
  const auto add = [&](const std::vector<Product>& more) {
    products.insert(products.end(), more.begin(), more.end());
  };
  for (const std::size_t width : {128, 256, 768})
    for (const std::size_t tokens : {256, 1024}) add(linear_products(width, tokens));
  for (const std::size_t head_size : {32, 64}) add(attention_products(head_size));
  for (const Product& product : products)
    benchmark::RegisterBenchmark(product.name.c_str(),
                                 [product](benchmark::State& state) { measure_product(state, product); });
}

}  // namespace tombolo::bench::micro
