// The matrix product's micro-kernels for AVX512_BF16, and what makes pairs of bfloat16 out of floats.
#include "compute/gemm_bfloat16.h"

#include <cstddef>
#include <cstdint>
#include <utility>

#include "compute/gemm_kernels.h"

#if defined(__x86_64__)
#include <immintrin.h>

#if defined(__clang__)
#pragma clang attribute push(__attribute__((target("arch=x86-64-v4,avx512bf16"))), apply_to = function)
#else
#pragma GCC push_options
#pragma GCC target("arch=x86-64-v4,avx512bf16,prefer-vector-width=512")
#endif

namespace tombolo::compute {
namespace {
constexpr std::size_t kLanes = 16, kTileRows = 14;
}

#define TOMBOLO_BFLOAT16_PAIRS
#include "compute/gemm_tile.inl"
#undef TOMBOLO_BFLOAT16_PAIRS

namespace {

/// The first `count` of 16 floats, then zeros.
inline __attribute__((always_inline)) __m512 load_some(const float* from, std::size_t count) {
  const auto mask = static_cast<__mmask16>(count >= kLanes ? 0xffffU : (1U << count) - 1U);
  return _mm512_maskz_loadu_ps(mask, from);
}
inline __attribute__((always_inline)) void store_some(float* to, __m512i value, std::size_t count) {
  const auto mask = static_cast<__mmask16>(count >= kLanes ? 0xffffU : (1U << count) - 1U);
  _mm512_mask_storeu_epi32(to, mask, value);
}
constexpr std::size_t less(std::size_t all, std::size_t by) {
  return all > by ? all - by : 0;
}

}  // namespace

void pair_along_rows(float* to, std::size_t to_stride, const float* from, std::size_t stride,
                     std::size_t rows, std::size_t length) noexcept {
  const std::size_t pairs = (length + 1) / 2;
  for (std::size_t row = 0; row < rows; ++row, to += to_stride, from += stride)
    for (std::size_t pair = 0; pair < pairs; pair += kLanes) {
      const std::size_t left = length - 2 * pair;
      const __m512 low = load_some(from + 2 * pair, left);
      const __m512 high = load_some(from + 2 * pair + kLanes, less(left, kLanes));
      store_some(to + pair, (__m512i)_mm512_cvtne2ps_pbh(high, low), pairs - pair);
    }
}

void pair_rows(float* to, std::size_t to_stride, const float* from, std::size_t stride, std::size_t rows,
               std::size_t length) noexcept {
  // The order that interleaves 16 values of one row with 16 of the next: the first of both, the second of
  // both, ...
  alignas(64) std::uint16_t order[2 * kLanes];
  for (std::size_t i = 0; i < kLanes; ++i) {
    order[2 * i] = static_cast<std::uint16_t>(i);
    order[2 * i + 1] = static_cast<std::uint16_t>(i + kLanes);
  }
  const __m512i interleaved = _mm512_load_si512(order);
  for (std::size_t row = 0; row < rows; row += 2, to += to_stride, from += 2 * stride)
    for (std::size_t at = 0; at < length; at += kLanes) {
      const __m512 first = load_some(from + at, length - at);
      const __m512 second = row + 1 < rows ? load_some(from + stride + at, length - at) : _mm512_setzero_ps();
      const __m512i both = (__m512i)_mm512_cvtne2ps_pbh(second, first);
      store_some(to + at, _mm512_permutexvar_epi16(interleaved, both), length - at);
    }
}

}  // namespace tombolo::compute
#include "compute/end_set.inl"

namespace tombolo::compute {

const GemmKernels kGemmBfloat16 = kTable;

}  // namespace tombolo::compute
#endif
