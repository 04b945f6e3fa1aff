// What follows a product where cuBLASLt has none with this epilogue: in fp32, whose GELU we want as exact as
// the rest, and for shapes that no fused kernel takes.
#pragma once

#include "trainer/cuda/gpu/launches.h"
#include "trainer/cuda/gpu/norm.cuh"
#include "trainer/cuda/gpu/values.cuh"

namespace tombolo::trainer::cuda::gpu {

inline constexpr int kEpilogueThreads = 256;

/// (1 + tanh u) / 2 = 1 / (1 + exp(-2u)), u = sqrt(2 / pi) (x + 0.044715 x^3): GPT-2's GELU is x times this.
TOMBOLO_GPU float gelu_gate(float x) {
  const float u = 0.7978845608F * x * (1.0F + 0.044715F * x * x);
  return 1.0F / (1.0F + expf(-2.0F * u));
}
TOMBOLO_GPU float gelu_slope(float x) {
  const float gate = gelu_gate(x);
  return gate + x * gate * (1.0F - gate) * (2.0F * 0.7978845608F * (1.0F + 3.0F * 0.044715F * x * x));
}

template <typename T>
struct EpilogueArguments {
  T* out;
  const T* vector;
  T* auxiliary;
  std::size_t rows, width;
  bool words;
};

/// block_y counts rows. Per element it reads and writes out, and auxiliary once.
template <typename T, Epilogue kEpilogue>
TOMBOLO_KERNEL(kEpilogueThreads)
epilogue_kernel(EpilogueArguments<T> p) {
  const std::size_t column = (static_cast<std::size_t>(block_y()) * kEpilogueThreads + thread_x()) * kPiece;
  if (column >= p.width) return;
  const std::size_t left = p.width - column;
  float bias[kPiece] = {};
  if (kEpilogue != Epilogue::kGeluGradient) load_piece(bias, p.vector + column, left, p.words);
  for (std::size_t row = block_x(); row < p.rows; row += blocks_x()) {
    const std::size_t at = row * p.width + column;
    float value[kPiece];
    load_piece(value, p.out + at, left, p.words);
    if (kEpilogue == Epilogue::kGeluGradient) {
      float before[kPiece];
      load_piece(before, p.auxiliary + at, left, p.words);
      TOMBOLO_UNROLL
      for (int i = 0; i < kPiece; ++i) value[i] *= gelu_slope(before[i]);
    } else {
      TOMBOLO_UNROLL
      for (int i = 0; i < kPiece; ++i) value[i] += bias[i];
    }
    if (kEpilogue == Epilogue::kBiasGelu) {
      store_piece(p.auxiliary + at, value, left, p.words);
      TOMBOLO_UNROLL
      for (int i = 0; i < kPiece; ++i) {
        const float before = stored(p.out, value[i]);
        value[i] = before * gelu_gate(before);
      }
    }
    store_piece(p.out + at, value, left, p.words);
  }
}

inline constexpr std::size_t kSumParts = 64;
inline constexpr int kSumThreads = 256;
inline constexpr int kSumWarps = kSumThreads / kWarp;

/// parts[block_y][i] = the sum of a over k = block_y, block_y + parts, ... where a is stored k x m. A lane
/// has eight columns and a warp every eighth row of the part. Reads a once.
template <typename T>
TOMBOLO_KERNEL(kSumThreads)
sum_columns_kernel(float* parts, const T* a, std::size_t m, std::size_t k, bool words) {
  TOMBOLO_SHARED float sums[kSumWarps][kWarp * kPiece + 1];
  const std::size_t lane = thread_x() % kWarp, warp = thread_x() / kWarp;
  const std::size_t column = (static_cast<std::size_t>(block_x()) * kWarp + lane) * kPiece;
  float sum[kPiece] = {};
  if (column < m)
    for (std::size_t row = block_y() + warp * kSumParts; row < k; row += kSumParts * kSumWarps) {
      float value[kPiece];
      load_piece(value, a + row * m + column, m - column, words);
      TOMBOLO_UNROLL
      for (int i = 0; i < kPiece; ++i) sum[i] += value[i];
    }
  TOMBOLO_UNROLL
  for (int i = 0; i < kPiece; ++i) sums[warp][lane * kPiece + static_cast<std::size_t>(i)] = sum[i];
  sync_block();
  const std::size_t mine = static_cast<std::size_t>(block_x()) * kWarp * kPiece + thread_x();
  static_assert(kSumThreads == kWarp * kPiece, "one thread per column of the block");
  if (mine >= m) return;
  float total = 0;
  for (int i = 0; i < kSumWarps; ++i) total += sums[i][thread_x()];
  parts[block_y() * m + mine] = total;
}

/// vector[i] = the sum of a's row i, where a is stored m x k; one warp per row. Reads a once.
template <typename T>
TOMBOLO_KERNEL(kSumThreads)
sum_rows_kernel(float* vector, const T* a, std::size_t m, std::size_t k) {
  const std::size_t row = static_cast<std::size_t>(block_x()) * kSumWarps + thread_x() / kWarp;
  if (row >= m) return;
  float sum = 0;
  for (std::size_t at = thread_x() % kWarp; at < k; at += kWarp) sum += value_of(a[row * k + at]);
  sum = warp_sum(sum);
  if (thread_x() % kWarp == 0) vector[row] = sum;
}

std::size_t sum_of_a_scratch(const Product& product) noexcept {
  return product.a_transposed ? kSumParts * product.m * sizeof(float) : 0;
}

template <typename T, Epilogue kEpilogue>
void launch_elementwise(const Launcher& launcher, const Product& product) {
  const bool words =
      product.n % kPiece == 0 && aligned_for_words(product.out.at, product.vector.at, product.auxiliary.at);
  const std::size_t most = static_cast<std::size_t>(launcher.processors) * 16;
  launch(launcher, epilogue_kernel<T, kEpilogue>,
         {static_cast<unsigned>(product.m < most ? product.m : most),
          blocks_for(product.n, static_cast<std::size_t>(kEpilogueThreads) * kPiece)},
         kEpilogueThreads, 0,
         EpilogueArguments<T>{typed<T>(product.out), typed<T>(product.vector), typed<T>(product.auxiliary),
                              product.m, product.n, words});
}

void launch_epilogue(const Launcher& launcher, const Product& product, float* scratch) {
  if (product.m == 0 || product.n == 0) return;
  if (product.epilogue == Epilogue::kSumOfA) {
    auto* const vector = typed<float>(product.vector);
    by_element(product.a.element, [&]<typename T>(T*) {
      const T* const a = typed<T>(product.a);
      if (!product.a_transposed) {
        launch(launcher, sum_rows_kernel<T>, {blocks_for(product.m, kSumWarps)}, kSumThreads, 0, vector, a,
               product.m, product.k);
        return;
      }
      launch(launcher, sum_columns_kernel<T>,
             {blocks_for(product.m, kWarp * kPiece), static_cast<unsigned>(kSumParts)}, kSumThreads, 0,
             scratch, a, product.m, product.k, product.m % kPiece == 0 && aligned_for_words(a));
      add_parts(launcher, {vector, nullptr, scratch, kSumParts, product.m, false});
    });
    return;
  }
  by_element(product.out.element, [&]<typename T>(T*) {
    if (product.epilogue == Epilogue::kBias) launch_elementwise<T, Epilogue::kBias>(launcher, product);
    if (product.epilogue == Epilogue::kBiasGelu)
      launch_elementwise<T, Epilogue::kBiasGelu>(launcher, product);
    if (product.epilogue == Epilogue::kGeluGradient)
      launch_elementwise<T, Epilogue::kGeluGradient>(launcher, product);
  });
}

}  // namespace tombolo::trainer::cuda::gpu
