// Attention for Tensor Cores: softmax block by block with a running maximum, so that scores never leave the
// registers (Dao, "FlashAttention-2", 2023, algorithm 1).
#pragma once

#include "trainer/cuda/gpu/flash_tiles.cuh"

namespace tombolo::trainer::cuda::gpu {

/// The shape of the forward kernel's blocks for heads of kHead.
template <int kHead>
struct FlashForward {
  static constexpr int kTiles = 2;
  static constexpr int kQueries = kFlashWarps * kTiles * 16;  ///< 128 of a block
  static constexpr int kKeys = kHead <= 80 ? 64 : 32;         ///< of a step
  using Keys = TilePairs<kHead, kKeys>;                       ///< and values
  /// The queries, and two steps' keys and values: 54, 66, 52 and 68 KiB for heads of 64, 80, 96 and 128.
  static constexpr std::size_t kSharedBytes =
      static_cast<std::size_t>(tile_numbers<kHead>(kQueries) + Keys::kNumbers) * sizeof(Bfloat16);
};

/// One block per 128 queries of a head. Two products of 2 x head size FLOPs per query and key that it sees;
/// bound by the Tensor Cores and by reading keys and values from shared memory, each for 32 queries at once.
/// Blocks with the most keys come first.
template <int kHead>
TOMBOLO_KERNEL(kFlashThreads)
flash_forward_kernel(AttentionArguments<Bfloat16> p) {
  using Shape = FlashForward<kHead>;
  constexpr int kTiles = Shape::kTiles, kKeys = Shape::kKeys, kStride = tile_stride<kHead>();
  const HeadOfRow<Bfloat16> head(p);
  const int context = static_cast<int>(p.context);
  const int lane = static_cast<int>(thread_x()) % kWarp, warp = static_cast<int>(thread_x()) / kWarp;
  const int first = static_cast<int>(blocks_x() - 1 - block_x()) * Shape::kQueries;
  const int own = first + warp * kTiles * 16;  // the warp's first query
  const unsigned stride = 3 * static_cast<unsigned>(head.width);

  Bfloat16* const queries = reinterpret_cast<Bfloat16*>(shared_memory());
  const typename Shape::Keys tiles(queries + tile_numbers<kHead>(Shape::kQueries), head.key, stride,
                                   head.value, stride, context);
  Bfloat16* const own_queries = queries + warp * kTiles * 16 * kStride;

  const int end = first + Shape::kQueries < context ? first + Shape::kQueries : context;
  load_tile<kHead, Shape::kQueries>(queries, head.query, first, context, stride);
  tiles.load(0, 0);

  float sums[kTiles][kHead / 8][4] = {};
  float largest[kTiles][2], totals[kTiles][2];
  TOMBOLO_UNROLL
  for (int t = 0; t < kTiles; ++t) {
    largest[t][0] = largest[t][1] = -INFINITY;
    totals[t][0] = totals[t][1] = 0;
  }
  const float scale = p.scale * kLog2E;  // exp(x) = 2^(x log2 e)
  for (int key = 0, step = 0; key < end; key += kKeys, ++step) {
    tiles.arrive();
    if (key + kKeys < end) tiles.load(step + 1, key + kKeys);
    if (key > own + kTiles * 16 - 1) continue;  // none of the warp's queries sees these keys
    float scores[kTiles][kKeys / 8][4];
    multiply_by_tokens<kHead, kTiles, kKeys>(scores, own_queries, tiles.first(step));
    const bool mask = key + kKeys - 1 > own;
    TOMBOLO_UNROLL
    for (int t = 0; t < kTiles; ++t) {
      TOMBOLO_UNROLL
      for (int half = 0; half < 2; ++half) {
        const int query = own + t * 16 + half * 8 + lane / 4;
        float most = largest[t][half];
        TOMBOLO_UNROLL
        for (int n = 0; n < kKeys / 8; ++n) {
          TOMBOLO_UNROLL
          for (int i = 0; i < 2; ++i) {
            float& score = scores[t][n][2 * half + i];
            if (mask && key + n * 8 + lane % 4 * 2 + i > query) score = -INFINITY;
            most = larger(most, score);
          }
        }
        // The four lanes of a row. Finite: every query sees key 0.
        most = larger(most, shuffle_xor(most, 1));
        most = larger(most, shuffle_xor(most, 2));
        const float correction = exp2_fast((largest[t][half] - most) * scale);
        largest[t][half] = most;
        float total = totals[t][half] * correction;  // the lane's own share; all four are added at the end
        TOMBOLO_UNROLL
        for (int n = 0; n < kKeys / 8; ++n) {
          TOMBOLO_UNROLL
          for (int i = 0; i < 2; ++i) {
            float& score = scores[t][n][2 * half + i];
            score = exp2_fast((score - most) * scale);
            total += score;
          }
        }
        totals[t][half] = total;
        TOMBOLO_UNROLL
        for (int n = 0; n < kHead / 8; ++n) {
          sums[t][n][2 * half] *= correction;
          sums[t][n][2 * half + 1] *= correction;
        }
      }
    }
    add_weighted_tokens<kHead, kTiles, kKeys>(sums, scores, tiles.second(step));
  }

  float scales[kTiles][2];
  TOMBOLO_UNROLL
  for (int t = 0; t < kTiles; ++t) {
    TOMBOLO_UNROLL
    for (int half = 0; half < 2; ++half) {
      float total = totals[t][half];
      total += shuffle_xor(total, 1);
      total += shuffle_xor(total, 2);
      scales[t][half] = 1.0F / total;
      const int query = own + t * 16 + half * 8 + lane / 4;
      if (lane % 4 == 0 && query < context)
        p.log_sum[head.log_sum + static_cast<std::size_t>(query)] =
            largest[t][half] * p.scale + log2f(total) * kLn2;
    }
  }
  // Only this warp reads its rows of the queries.
  store_rows<kHead, kTiles>(p.out + head.out, own_queries, sums, scales, own, context, head.width);
}

}  // namespace tombolo::trainer::cuda::gpu
