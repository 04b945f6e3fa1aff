// What the attention kernels for Tensor Cores share: tiles of tokens in shared memory, fragments of matrices
// in registers, and the products of both.
//
// A block has four warps. Each owns kRows = 16 x kTiles tokens ("its rows"): queries in the forward kernel
// and in the one for the queries' gradient, keys in the one for the gradients of keys and values. The block
// walks over tiles of the other tokens ("columns"), one tile ahead of what is computed.
//
// A token of a tile takes kHead + 8 numbers: 9, 11, 13 or 17 times 16 bytes. The number is odd, so the eight
// rows of 16 bytes that one matrix instruction reads at once lie in different banks.
#pragma once

#include "trainer/cuda/gpu/attention_plain.cuh"

namespace tombolo::trainer::cuda::gpu {

inline constexpr int kFlashThreads = 128;
inline constexpr int kFlashWarps = kFlashThreads / kWarp;
inline constexpr float kLog2E = 1.44269504089F, kLn2 = 0.69314718056F;

template <int kHead>
TOMBOLO_HOST_DEVICE constexpr int tile_stride() {
  static_assert(kHead % 16 == 0 && kHead / 8 % 2 == 0, "the padded row is an odd number of 16 bytes");
  return kHead + 8;
}
template <int kHead>
TOMBOLO_HOST_DEVICE constexpr int tile_numbers(int tokens) {
  return tokens * tile_stride<kHead>();
}

/// Begins to copy tokens first, first + 1, ... of one head to a tile; those from `context` on become zeros.
template <int kHead, int kTokens>
TOMBOLO_GPU void load_tile(Bfloat16* tile, const Bfloat16* from, int first, int context, unsigned stride) {
  constexpr int kChunks = kHead / 8, kCopies = kTokens * kChunks;
  // Kept from step to step, the addresses would cost registers that the sums need.
  const int thread = computed_anew(static_cast<int>(thread_x()));
  TOMBOLO_UNROLL
  for (int begin = 0; begin < kCopies; begin += kFlashThreads) {
    const int i = begin + thread;
    if (begin + kFlashThreads > kCopies && i >= kCopies) return;
    const int token = i / kChunks, chunk = i % kChunks;
    const bool there = first + token < context;
    const auto row = static_cast<std::size_t>(there ? first + token : context - 1);
    copy_async<16>(tile + token * tile_stride<kHead>() + chunk * 8, from + row * stride + chunk * 8, there);
  }
}

/// Two arrays of a head's tokens, such as its keys and values, of which a kernel takes kTokens at a step: the
/// tiles of one step are read while those of the next are copied.
template <int kHead, int kTokens>
class TilePairs {
 public:
  static constexpr int kTile = tile_numbers<kHead>(kTokens);
  static constexpr int kNumbers = 4 * kTile;  ///< that they take of shared memory

  /// `shared` has room for kNumbers.
  TOMBOLO_GPU TilePairs(Bfloat16* shared, const Bfloat16* first, unsigned first_stride,
                        const Bfloat16* second, unsigned second_stride, int context)
      : shared_(shared),
        first_(first),
        second_(second),
        first_stride_(first_stride),
        second_stride_(second_stride),
        context_(context) {}

  /// Begins to copy the tiles of this step, which begin with `token`. Whatever else this thread has begun to
  /// copy is in the same group.
  TOMBOLO_GPU void load(int step, int token) const {
    load_tile<kHead, kTokens>(tile(step, 0), first_, token, context_, first_stride_);
    load_tile<kHead, kTokens>(tile(step, 1), second_, token, context_, second_stride_);
    commit_copies();
  }
  /// All threads of the block come here: then the step's tiles are there, and nobody reads the others any
  /// more.
  TOMBOLO_GPU static void arrive() {
    wait_for_copies<0>();
    sync_block();
  }
  TOMBOLO_GPU const Bfloat16* first(int step) const { return tile(step, 0); }
  TOMBOLO_GPU const Bfloat16* second(int step) const { return tile(step, 1); }

 private:
  TOMBOLO_GPU Bfloat16* tile(int step, int which) const { return shared_ + (2 * which + step % 2) * kTile; }

  Bfloat16* shared_;
  const Bfloat16 *first_, *second_;
  unsigned first_stride_, second_stride_;
  int context_;
};

/// Rounds the fragments of one warp's kTiles x 16 rows, scales them, and writes them as tokens first, ... of
/// a head, by way of `tile`: those rows of shared memory, which nobody else reads any more.
template <int kHead, int kTiles>
TOMBOLO_GPU void store_rows(Bfloat16* to, Bfloat16* tile, const float (&sums)[kTiles][kHead / 8][4],
                            const float (&scales)[kTiles][2], int first, int context, std::size_t stride) {
  const int lane = static_cast<int>(thread_x()) % kWarp;
  constexpr int kStride = tile_stride<kHead>();
  sync_warp();
  TOMBOLO_UNROLL
  for (int t = 0; t < kTiles; ++t) {
    TOMBOLO_UNROLL
    for (int n = 0; n < kHead / 8; ++n) {
      TOMBOLO_UNROLL
      for (int half = 0; half < 2; ++half) {
        const float scale = scales[t][half];
        *reinterpret_cast<std::uint32_t*>(tile + (t * 16 + half * 8 + lane / 4) * kStride + n * 8 +
                                          lane % 4 * 2) =
            bfloat16_pair(sums[t][n][2 * half] * scale, sums[t][n][2 * half + 1] * scale);
      }
    }
  }
  sync_warp();
  constexpr int kChunks = kHead / 8;
  for (int i = lane; i < kTiles * 16 * kChunks; i += kWarp) {
    const int token = i / kChunks, chunk = i % kChunks;
    if (first + token >= context) continue;
    *reinterpret_cast<Word4*>(to + static_cast<std::size_t>(first + token) * stride + chunk * 8) =
        *reinterpret_cast<const Word4*>(tile + token * kStride + chunk * 8);
  }
}

/// Rows 0 .. 15, columns k .. k + 15 of a tile as the left factor of a product.
template <int kHead>
TOMBOLO_GPU void load_left(std::uint32_t (&to)[4], const Bfloat16* tile, int k) {
  const int lane = static_cast<int>(thread_x()) % kWarp;
  load_matrices(to, tile + lane % 16 * tile_stride<kHead>() + k + lane / 16 * 8);
}

/// out (kTiles x 16 by kColumns) = left (the warp's rows) x right^T (a tile's tokens), over the head.
template <int kHead, int kTiles, int kColumns>
TOMBOLO_GPU void multiply_by_tokens(float (&out)[kTiles][kColumns / 8][4], const Bfloat16* left,
                                    const Bfloat16* right) {
  const int lane = static_cast<int>(thread_x()) % kWarp;
  constexpr int kStride = tile_stride<kHead>();
  TOMBOLO_UNROLL
  for (int t = 0; t < kTiles; ++t) {
    TOMBOLO_UNROLL
    for (int n = 0; n < kColumns / 8; ++n) {
      TOMBOLO_UNROLL
      for (int i = 0; i < 4; ++i) out[t][n][i] = 0;
    }
  }
  // Matrices of one load: tokens 0-7 and 8-15 of 16, each in two halves of 16 numbers of the head.
  const Bfloat16* const from = right + (lane / 16 * 8 + lane % 8) * kStride + lane / 8 % 2 * 8;
  TOMBOLO_UNROLL
  for (int k = 0; k < kHead; k += 16) {
    std::uint32_t a[kTiles][4];
    TOMBOLO_UNROLL
    for (int t = 0; t < kTiles; ++t) load_left<kHead>(a[t], left + t * 16 * kStride, k);
    TOMBOLO_UNROLL
    for (int n = 0; n < kColumns / 16; ++n) {
      std::uint32_t b[4];
      load_matrices(b, from + n * 16 * kStride + k);
      TOMBOLO_UNROLL
      for (int t = 0; t < kTiles; ++t) {
        multiply_add(out[t][2 * n], a[t], b[0], b[1]);
        multiply_add(out[t][2 * n + 1], a[t], b[2], b[3]);
      }
    }
  }
}

/// out (kTiles x 16 by kHead) += weights (kTiles x 16 by kColumns, rounded to bf16) x right (a tile's
/// tokens). The weights' fragments, as a product leaves them, are those of a left factor as they are.
template <int kHead, int kTiles, int kColumns>
TOMBOLO_GPU void add_weighted_tokens(float (&out)[kTiles][kHead / 8][4],
                                     const float (&weights)[kTiles][kColumns / 8][4], const Bfloat16* right) {
  const int lane = static_cast<int>(thread_x()) % kWarp;
  constexpr int kStride = tile_stride<kHead>();
  // Matrices of one load, transposed: tokens 0-7 and 8-15 of 16, each in two halves of 16 numbers of the
  // head.
  const Bfloat16* const from = right + (lane / 8 % 2 * 8 + lane % 8) * kStride + lane / 16 * 8;
  TOMBOLO_UNROLL
  for (int k = 0; k < kColumns / 16; ++k) {
    std::uint32_t a[kTiles][4];
    TOMBOLO_UNROLL
    for (int t = 0; t < kTiles; ++t) {
      a[t][0] = bfloat16_pair(weights[t][2 * k][0], weights[t][2 * k][1]);
      a[t][1] = bfloat16_pair(weights[t][2 * k][2], weights[t][2 * k][3]);
      a[t][2] = bfloat16_pair(weights[t][2 * k + 1][0], weights[t][2 * k + 1][1]);
      a[t][3] = bfloat16_pair(weights[t][2 * k + 1][2], weights[t][2 * k + 1][3]);
    }
    TOMBOLO_UNROLL
    for (int n = 0; n < kHead / 16; ++n) {
      std::uint32_t b[4];
      load_matrices_transposed(b, from + k * 16 * kStride + n * 16);
      TOMBOLO_UNROLL
      for (int t = 0; t < kTiles; ++t) {
        multiply_add(out[t][2 * n], a[t], b[0], b[1]);
        multiply_add(out[t][2 * n + 1], a[t], b[2], b[3]);
      }
    }
  }
}

}  // namespace tombolo::trainer::cuda::gpu
