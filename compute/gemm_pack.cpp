#include "compute/gemm_pack.h"

#include <algorithm>
#include <cstring>

namespace tombolo::compute {
namespace {

// Matrices are transposed in blocks of four floats, which every processor does fast.
typedef float Quad __attribute__((vector_size(16)));
constexpr std::size_t kQuad = 4;

Quad load(const float* from) noexcept {
  Quad quad;
  std::memcpy(&quad, from, sizeof quad);
  return quad;
}
void store(float* to, Quad quad) noexcept {
  std::memcpy(to, &quad, sizeof quad);
}

void transpose_quad(float* to, std::size_t to_stride, const float* from, std::size_t stride) noexcept {
  const Quad a = load(from), b = load(from + stride), c = load(from + 2 * stride),
             d = load(from + 3 * stride);
  const Quad low_ab = __builtin_shufflevector(a, b, 0, 4, 1, 5),
             high_ab = __builtin_shufflevector(a, b, 2, 6, 3, 7);
  const Quad low_cd = __builtin_shufflevector(c, d, 0, 4, 1, 5),
             high_cd = __builtin_shufflevector(c, d, 2, 6, 3, 7);
  store(to, __builtin_shufflevector(low_ab, low_cd, 0, 1, 4, 5));
  store(to + to_stride, __builtin_shufflevector(low_ab, low_cd, 2, 3, 6, 7));
  store(to + 2 * to_stride, __builtin_shufflevector(high_ab, high_cd, 0, 1, 4, 5));
  store(to + 3 * to_stride, __builtin_shufflevector(high_ab, high_cd, 2, 3, 6, 7));
}

}  // namespace

void pack_panel(float* to, const float* from, std::size_t stride, std::size_t inner, std::size_t columns,
                std::size_t width) noexcept {
  for (std::size_t k = 0; k < inner; ++k, to += width, from += stride) {
    std::memcpy(to, from, columns * sizeof(float));
    std::fill(to + columns, to + width, 0.0F);
  }
}

void pack_transposed_panel(float* to, const float* from, std::size_t stride, std::size_t inner,
                           std::size_t columns, std::size_t width) noexcept {
  std::size_t column = 0;
  for (; column + kQuad <= columns; column += kQuad) {
    const float* rows = from + column * stride;
    std::size_t k = 0;
    for (; k + kQuad <= inner; k += kQuad) transpose_quad(to + k * width + column, width, rows + k, stride);
    for (; k < inner; ++k)
      for (std::size_t one = 0; one < kQuad; ++one) to[k * width + column + one] = rows[one * stride + k];
  }
  for (; column < width; ++column)
    for (std::size_t k = 0; k < inner; ++k)
      to[k * width + column] = column < columns ? from[column * stride + k] : 0.0F;
}

}  // namespace tombolo::compute
