// Layer norm and its gradient, both bound by memory. A row belongs to 1, 2, 4, 8 or 16 warps, so that a lane
// holds at most four pieces of it.
#pragma once

#include "trainer/cuda/gpu/launches.h"
#include "trainer/cuda/gpu/values.cuh"

namespace tombolo::trainer::cuda::gpu {

inline constexpr int kNormThreads = 512;
inline constexpr int kNormPieces = 4;  ///< of a row, that one lane holds
inline constexpr int kNormWarps = kNormThreads / kWarp;
static_assert(kNormWidest == static_cast<std::size_t>(kNormThreads) * kNormPieces * kPiece);

/// Warps for each row: the least power of two whose lanes hold it. `width` is at most kNormWidest.
TOMBOLO_HOST_DEVICE constexpr int warps_of_row(std::size_t width) {
  int warps = 1;
  while (static_cast<std::size_t>(warps) * kWarp * kNormPieces * kPiece < width) warps *= 2;
  return warps;
}

/// Which row of the block, and which columns of it, a thread works on.
struct PlaceInRow {
  TOMBOLO_GPU explicit PlaceInRow(int warps_per_row)
      : warps(warps_per_row),
        row(static_cast<int>(thread_x()) / (warps_per_row * kWarp)),
        lane(static_cast<int>(thread_x()) % (warps_per_row * kWarp)) {}
  TOMBOLO_GPU std::size_t column(int piece) const {
    return static_cast<std::size_t>(piece * warps * kWarp + lane) * kPiece;
  }
  int warps, row, lane;
};

/// The sums of both over the threads of a row; all threads of the block come here together.
TOMBOLO_GPU void row_sums(float& one, float& other, const PlaceInRow& place) {
  one = warp_sum(one);
  other = warp_sum(other);
  if (place.warps == 1) return;
  TOMBOLO_SHARED float sums[kNormWarps][2];
  const int warp = static_cast<int>(thread_x()) / kWarp;
  sync_block();  // all have read the sums of before
  if (thread_x() % kWarp == 0) {
    sums[warp][0] = one;
    sums[warp][1] = other;
  }
  sync_block();
  one = other = 0;
  for (int i = 0; i < place.warps; ++i) {
    one += sums[place.row * place.warps + i][0];
    other += sums[place.row * place.warps + i][1];
  }
}

template <typename T>
struct NormArguments {
  T *out, *sum;
  const T *x, *residual, *weight, *bias;
  float *mean, *inverse;
  std::size_t rows, width;
  int warps;
  bool words;
};

/// Per element it reads one (two with a residual) and writes one (two): 4 or 8 bytes in bf16.
template <typename T>
TOMBOLO_KERNEL(kNormThreads)
norm_kernel(NormArguments<T> p) {
  const PlaceInRow place(p.warps);
  const std::size_t row =
      static_cast<std::size_t>(block_x()) * static_cast<std::size_t>(kNormWarps / p.warps) +
      static_cast<std::size_t>(place.row);
  const bool there = row < p.rows;
  const std::size_t begin = row * p.width;
  const float share = 1.0F / static_cast<float>(p.width);
  float kept[kNormPieces][kPiece];
  float total = 0, squares = 0;
  TOMBOLO_UNROLL
  for (int piece = 0; piece < kNormPieces; ++piece) {
    const std::size_t at = place.column(piece);
    TOMBOLO_UNROLL
    for (int i = 0; i < kPiece; ++i) kept[piece][i] = 0;
    if (!there || at >= p.width) continue;
    load_piece(kept[piece], p.x + begin + at, p.width - at, p.words);
    if (p.residual != nullptr) {
      float other[kPiece];
      load_piece(other, p.residual + begin + at, p.width - at, p.words);
      TOMBOLO_UNROLL
      for (int i = 0; i < kPiece; ++i) kept[piece][i] = stored(p.sum, kept[piece][i] + other[i]);
      store_piece(p.sum + begin + at, kept[piece], p.width - at, p.words);
    }
    TOMBOLO_UNROLL
    for (int i = 0; i < kPiece; ++i) total += kept[piece][i];
  }
  row_sums(total, squares, place);
  const float mean = total * share;
  float unused = squares = 0;
  TOMBOLO_UNROLL
  for (int piece = 0; piece < kNormPieces; ++piece) {
    const std::size_t at = place.column(piece);
    TOMBOLO_UNROLL
    for (int i = 0; i < kPiece; ++i) {
      const float off = kept[piece][i] - mean;
      if (at + static_cast<std::size_t>(i) < p.width) squares += off * off;
    }
  }
  row_sums(squares, unused, place);
  if (!there) return;
  const float inverse = 1.0F / sqrtf(squares * share + 1e-5F);
  TOMBOLO_UNROLL
  for (int piece = 0; piece < kNormPieces; ++piece) {
    const std::size_t at = place.column(piece);
    if (at >= p.width) continue;
    float weight[kPiece], result[kPiece];
    load_piece(weight, p.weight + at, p.width - at, p.words);
    load_piece(result, p.bias + at, p.width - at, p.words);
    TOMBOLO_UNROLL
    for (int i = 0; i < kPiece; ++i) result[i] += (kept[piece][i] - mean) * inverse * weight[i];
    store_piece(p.out + begin + at, result, p.width - at, p.words);
  }
  if (place.lane == 0) {
    p.mean[row] = mean;
    p.inverse[row] = inverse;
  }
}

void launch_operation(const Launcher& launcher, const Norm& norm) {
  if (norm.rows == 0) return;
  by_element(norm.out.element, [&]<typename T>(T*) {
    const int warps = warps_of_row(norm.width);
    const bool words =
        norm.width % kPiece == 0 && aligned_for_words(norm.out.at, norm.sum.at, norm.x.at, norm.residual.at,
                                                      norm.weight.at, norm.bias.at);
    launch(launcher, norm_kernel<T>, {blocks_for(norm.rows, static_cast<std::size_t>(kNormWarps / warps))},
           kNormThreads, 0,
           NormArguments<T>{typed<T>(norm.out), typed<T>(norm.sum), typed<T>(norm.x), typed<T>(norm.residual),
                            typed<T>(norm.weight), typed<T>(norm.bias), norm.mean, norm.inverse, norm.rows,
                            norm.width, warps, words});
  });
}

template <typename T>
struct NormBackwardArguments {
  T* x_gradient;
  const T *gradient, *x, *weight;
  const float *mean, *inverse;
  float* parts;
  std::size_t rows, width;
  int warps;
};

/// The gradient of x, and of every block the sums of those of weight and bias over its rows: rows b, b +
/// blocks, ... in this order. Per element it reads three and writes one (8 bytes in bf16); the second reading
/// of gradient and x comes from the cache.
///
/// Shared memory: 2 x width floats where more than one row is worked on at once, so at most 64 KiB.
///
/// The 64 sums of a thread leave registers for one piece at a time, and none for a choice between words and
/// single numbers in each: that is the launch's.
template <typename T, bool kWords>
TOMBOLO_KERNEL(kNormThreads)
norm_backward_kernel(NormBackwardArguments<T> p) {
  const PlaceInRow place(p.warps);
  const int at_once = kNormWarps / p.warps;
  const std::size_t stride = static_cast<std::size_t>(blocks_x()) * static_cast<std::size_t>(at_once);
  const float share = 1.0F / static_cast<float>(p.width);
  float weight_sums[kNormPieces][kPiece] = {}, bias_sums[kNormPieces][kPiece] = {};
  for (std::size_t first = static_cast<std::size_t>(block_x()) * static_cast<std::size_t>(at_once);
       first < p.rows; first += stride) {
    const std::size_t row = first + static_cast<std::size_t>(place.row);
    const bool there = row < p.rows;
    const std::size_t begin = row * p.width;
    const float mean = there ? p.mean[row] : 0, inverse = there ? p.inverse[row] : 0;
    float total = 0, product = 0;
    TOMBOLO_UNROLL
    for (int piece = 0; piece < kNormPieces; ++piece) {
      const std::size_t at = place.column(piece);
      if (!there || at >= p.width) continue;
      float gradient[kPiece], x[kPiece], weight[kPiece];
      load_piece(gradient, p.gradient + begin + at, p.width - at, kWords);
      load_piece(x, p.x + begin + at, p.width - at, kWords);
      load_piece(weight, p.weight + at, p.width - at, kWords);
      TOMBOLO_UNROLL
      for (int i = 0; i < kPiece;
           ++i) {  // beyond the width gradient is 0, and so is all that it is a factor of
        const float normal = (x[i] - mean) * inverse;
        const float inner = gradient[i] * weight[i];
        total += inner;
        product += inner * normal;
        weight_sums[piece][i] += gradient[i] * normal;
        bias_sums[piece][i] += gradient[i];
      }
    }
    row_sums(total, product, place);
    const float mean_inner = total * share, mean_product = product * share;
    TOMBOLO_ROLLED
    for (int piece = 0; piece < kNormPieces; ++piece) {
      const std::size_t at = place.column(piece);
      if (!there || at >= p.width) continue;
      float gradient[kPiece], x[kPiece], weight[kPiece], result[kPiece];
      load_piece(gradient, p.gradient + begin + at, p.width - at, kWords);
      load_piece(x, p.x + begin + at, p.width - at, kWords);
      load_piece(weight, p.weight + at, p.width - at, kWords);
      load_piece(result, p.x_gradient + begin + at, p.width - at, kWords);
      TOMBOLO_UNROLL
      for (int i = 0; i < kPiece; ++i) {
        const float normal = (x[i] - mean) * inverse;
        result[i] += (gradient[i] * weight[i] - mean_inner - normal * mean_product) * inverse;
      }
      store_piece(p.x_gradient + begin + at, result, p.width - at, kWords);
    }
  }
  // The rows' sums one after another, into the block's part.
  float* const part = p.parts + static_cast<std::size_t>(block_x()) * 2 * p.width;
  float* const sums = at_once > 1 ? reinterpret_cast<float*>(shared_memory()) : part;
  for (int turn = 0; turn < at_once; ++turn) {
    if (turn == place.row) {
      TOMBOLO_UNROLL
      for (int piece = 0; piece < kNormPieces; ++piece) {
        const std::size_t at = place.column(piece);
        TOMBOLO_UNROLL
        for (int i = 0; i < kPiece; ++i) {
          const std::size_t column = at + static_cast<std::size_t>(i);
          if (column >= p.width) continue;
          const float weight = weight_sums[piece][i], bias = bias_sums[piece][i];
          sums[column] = turn == 0 ? weight : sums[column] + weight;
          sums[p.width + column] = turn == 0 ? bias : sums[p.width + column] + bias;
        }
      }
    }
    sync_block();
  }
  if (at_once == 1) return;
  for (std::size_t at = thread_x(); at < 2 * p.width; at += threads_x()) part[at] = sums[at];
}

inline constexpr int kPartsColumns = kWarp;  ///< that one block adds up
inline constexpr int kPartsThreads = 256;
inline constexpr int kPartsRows = kPartsThreads / kPartsColumns;

struct PartsArguments {
  float *first, *second;  ///< width floats each; the second may be null
  const float* parts;     ///< `count` rows of width or 2 x width floats
  std::size_t count, width;
  bool add;
};

/// first (and second) += or = the sum of all parts, in a fixed order. Reads 4 bytes per part and column.
TOMBOLO_KERNEL(kPartsThreads) add_parts_kernel(PartsArguments p) {
  TOMBOLO_SHARED float sums[kPartsRows][kPartsColumns];
  const std::size_t lane = thread_x() % kPartsColumns, row = thread_x() / kPartsColumns;
  const std::size_t columns = p.second == nullptr ? p.width : 2 * p.width;
  const std::size_t column = static_cast<std::size_t>(block_x()) * kPartsColumns + lane;
  float sum = 0;
  if (column < columns)
    for (std::size_t part = row; part < p.count; part += kPartsRows) sum += p.parts[part * columns + column];
  sums[row][lane] = sum;
  sync_block();
  if (row != 0 || column >= columns) return;
  for (int i = 1; i < kPartsRows; ++i) sum += sums[i][lane];
  float* const to = column < p.width ? p.first + column : p.second + (column - p.width);
  *to = p.add ? *to + sum : sum;
}

inline void add_parts(const Launcher& launcher, const PartsArguments& arguments) {
  const std::size_t columns = arguments.second == nullptr ? arguments.width : 2 * arguments.width;
  launch(launcher, add_parts_kernel, {blocks_for(columns, kPartsColumns)}, kPartsThreads, 0, arguments);
}

void launch_operation(const Launcher& launcher, const NormBackward& norm) {
  if (norm.rows == 0) return;
  const int warps = warps_of_row(norm.width);
  const int at_once = kNormWarps / warps;
  const std::size_t wanted = blocks_for(norm.rows, static_cast<std::size_t>(at_once));
  const std::size_t parts = wanted < kNormParts ? wanted : kNormParts;
  by_element(norm.gradient.element, [&]<typename T>(T*) {
    const bool words = norm.width % kPiece == 0 &&
                       aligned_for_words(norm.x_gradient.at, norm.gradient.at, norm.x.at, norm.weight.at);
    launch(launcher, words ? norm_backward_kernel<T, true> : norm_backward_kernel<T, false>,
           {static_cast<unsigned>(parts)}, kNormThreads, at_once > 1 ? 2 * norm.width * sizeof(float) : 0,
           NormBackwardArguments<T>{typed<T>(norm.x_gradient), typed<T>(norm.gradient), typed<T>(norm.x),
                                    typed<T>(norm.weight), norm.mean, norm.inverse, norm.scratch, norm.rows,
                                    norm.width, warps});
  });
  add_parts(launcher, {norm.weight_gradient, norm.bias_gradient, norm.scratch, parts, norm.width, true});
}

}  // namespace tombolo::trainer::cuda::gpu
