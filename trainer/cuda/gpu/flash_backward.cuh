// The gradients of attention for Tensor Cores, in two kernels that compute the scores anew: one whose blocks
// own keys, one whose blocks own queries. Every sum has one owner, so nothing is added atomically and the
// bits do not depend on the order of blocks; the price is 7 products where one kernel with atomic additions
// has 5.
#pragma once

#include "trainer/cuda/gpu/flash_tiles.cuh"

namespace tombolo::trainer::cuda::gpu {

template <int kHead>
struct FlashKeyGradient {
  static constexpr int kTiles = kHead == 64 ? 2 : 1;       // as the registers allow: two sums per key
  static constexpr int kKeys = kFlashWarps * kTiles * 16;  ///< of a block
  static constexpr int kQueries = 32;                      ///< of a step
  using Queries = TilePairs<kHead, kQueries>;              ///< and their gradients
  /// Keys and values, and two steps' queries and gradients; and of these two numbers each. For heads of 64:
  /// 54.5 KiB, of 128: 68.5.
  static constexpr std::size_t kTileBytes =
      static_cast<std::size_t>(tile_numbers<kHead>(2 * kKeys) + Queries::kNumbers) * sizeof(Bfloat16);
  static constexpr std::size_t kSharedBytes = kTileBytes + 4 * kQueries * sizeof(float);
};

/// One block per 64 or 128 keys of a head: the gradients of keys and values. Rows are keys and columns
/// queries, so that weights and score gradients are left factors where they arise. Four products of 2 x head
/// size FLOPs per query and key; bound by the Tensor Cores and shared memory. The blocks with the most
/// queries come first.
template <int kHead>
TOMBOLO_KERNEL(kFlashThreads)
flash_key_gradient_kernel(AttentionBackwardArguments<Bfloat16> p) {
  using Shape = FlashKeyGradient<kHead>;
  constexpr int kTiles = Shape::kTiles, kQueries = Shape::kQueries, kStride = tile_stride<kHead>();
  const HeadOfRow<Bfloat16> head(p);
  const int context = static_cast<int>(p.context);
  const int lane = static_cast<int>(thread_x()) % kWarp, warp = static_cast<int>(thread_x()) / kWarp;
  const int first = static_cast<int>(block_x()) * Shape::kKeys;
  const int own = first + warp * kTiles * 16;  // the warp's first key
  const auto width = static_cast<unsigned>(head.width), stride = 3 * width;

  Bfloat16* const keys = reinterpret_cast<Bfloat16*>(shared_memory());
  Bfloat16* const values = keys + tile_numbers<kHead>(Shape::kKeys);
  const typename Shape::Queries tiles(values + tile_numbers<kHead>(Shape::kKeys), head.query, stride,
                                      p.gradient + head.out, width, context);
  float* const log_sums = reinterpret_cast<float*>(shared_memory() + Shape::kTileBytes);  // of two steps
  float* const deltas = log_sums + 2 * kQueries;
  Bfloat16* const own_keys = keys + warp * kTiles * 16 * kStride;
  Bfloat16* const own_values = values + warp * kTiles * 16 * kStride;

  const auto load_step = [&](int step, int query) {
    // Of a query that is not there the delta and the gradient are zero, and so is all that it adds.
    if (const int mine = static_cast<int>(thread_x()); mine < kQueries) {
      const bool there = query + mine < context;
      const std::size_t at = head.log_sum + static_cast<std::size_t>(there ? query + mine : context - 1);
      copy_async<4>(log_sums + step % 2 * kQueries + mine, p.log_sum + at, there);
      copy_async<4>(deltas + step % 2 * kQueries + mine, p.delta + at, there);
    }
    tiles.load(step, query);
  };

  load_tile<kHead, Shape::kKeys>(keys, head.key, first, context, stride);
  load_tile<kHead, Shape::kKeys>(values, head.value, first, context, stride);
  load_step(0, first);  // a multiple of kQueries; queries before see none of these keys

  float key_sums[kTiles][kHead / 8][4] = {}, value_sums[kTiles][kHead / 8][4] = {};
  const float scale = p.scale * kLog2E;
  for (int query = first, step = 0; query < context; query += kQueries, ++step) {
    const int now = step % 2;
    tiles.arrive();
    if (query + kQueries < context) load_step(step + 1, query + kQueries);
    if (query + kQueries - 1 < own) continue;  // these queries see none of the warp's keys
    float weights[kTiles][kQueries / 8][4], score_gradients[kTiles][kQueries / 8][4];
    multiply_by_tokens<kHead, kTiles, kQueries>(weights, own_keys, tiles.first(step));
    const bool mask = query < own + kTiles * 16 - 1;
    TOMBOLO_UNROLL
    for (int n = 0; n < kQueries / 8; ++n) {
      TOMBOLO_UNROLL
      for (int i = 0; i < 2; ++i) {
        const int column = n * 8 + lane % 4 * 2 + i;
        const float log_sum = log_sums[now * kQueries + column] * kLog2E;
        TOMBOLO_UNROLL
        for (int t = 0; t < kTiles; ++t) {
          TOMBOLO_UNROLL
          for (int half = 0; half < 2; ++half) {
            float& weight = weights[t][n][2 * half + i];
            weight = exp2_fast(weight * scale - log_sum);
            if (mask && own + t * 16 + half * 8 + lane / 4 > query + column) weight = 0;
          }
        }
      }
    }
    add_weighted_tokens<kHead, kTiles, kQueries>(value_sums, weights, tiles.second(step));
    multiply_by_tokens<kHead, kTiles, kQueries>(score_gradients, own_values, tiles.second(step));
    TOMBOLO_UNROLL
    for (int n = 0; n < kQueries / 8; ++n) {
      TOMBOLO_UNROLL
      for (int i = 0; i < 2; ++i) {
        const float delta = deltas[now * kQueries + n * 8 + lane % 4 * 2 + i];
        TOMBOLO_UNROLL
        for (int t = 0; t < kTiles; ++t) {
          TOMBOLO_UNROLL
          for (int half = 0; half < 2; ++half) {
            float& gradient = score_gradients[t][n][2 * half + i];
            gradient = weights[t][n][2 * half + i] * (gradient - delta);
          }
        }
      }
    }
    add_weighted_tokens<kHead, kTiles, kQueries>(key_sums, score_gradients, tiles.first(step));
  }

  float key_scales[kTiles][2], value_scales[kTiles][2];
  TOMBOLO_UNROLL
  for (int t = 0; t < kTiles; ++t) {
    key_scales[t][0] = key_scales[t][1] = p.scale;
    value_scales[t][0] = value_scales[t][1] = 1.0F;
  }
  // Only this warp reads its rows of keys and values.
  Bfloat16* const to = p.qkv_gradient + (head.key - p.qkv);
  store_rows<kHead, kTiles>(to, own_keys, key_sums, key_scales, own, context, stride);
  store_rows<kHead, kTiles>(to + head.width, own_values, value_sums, value_scales, own, context, stride);
}

template <int kHead>
struct FlashQueryGradient {
  static constexpr int kTiles = kHead <= 96 ? 2 : 1;
  static constexpr int kQueries = kFlashWarps * kTiles * 16;  ///< of a block
  static constexpr int kKeys = 32;                            ///< of a step
  using Keys = TilePairs<kHead, kKeys>;                       ///< and values
  /// Queries and gradients, and two steps' keys and values: 54, 66, 78 and 68 KiB for heads of 64, 80, 96 and
  /// 128; some GPUs of compute capability 8 give a block no more than 99.
  static constexpr std::size_t kSharedBytes =
      static_cast<std::size_t>(tile_numbers<kHead>(2 * kQueries) + Keys::kNumbers) * sizeof(Bfloat16);
};

/// One block per 64 or 128 queries of a head: their gradient. Three products of 2 x head size FLOPs per query
/// and key; bound as the kernel above. The blocks with the most keys come first.
template <int kHead>
TOMBOLO_KERNEL(kFlashThreads)
flash_query_gradient_kernel(AttentionBackwardArguments<Bfloat16> p) {
  using Shape = FlashQueryGradient<kHead>;
  constexpr int kTiles = Shape::kTiles, kKeys = Shape::kKeys, kStride = tile_stride<kHead>();
  const HeadOfRow<Bfloat16> head(p);
  const int context = static_cast<int>(p.context);
  const int lane = static_cast<int>(thread_x()) % kWarp, warp = static_cast<int>(thread_x()) / kWarp;
  const int first = static_cast<int>(blocks_x() - 1 - block_x()) * Shape::kQueries;
  const int own = first + warp * kTiles * 16;  // the warp's first query
  const auto width = static_cast<unsigned>(head.width), stride = 3 * width;

  Bfloat16* const queries = reinterpret_cast<Bfloat16*>(shared_memory());
  Bfloat16* const gradients = queries + tile_numbers<kHead>(Shape::kQueries);
  const typename Shape::Keys tiles(gradients + tile_numbers<kHead>(Shape::kQueries), head.key, stride,
                                   head.value, stride, context);
  Bfloat16* const own_queries = queries + warp * kTiles * 16 * kStride;
  const Bfloat16* const own_gradients = gradients + warp * kTiles * 16 * kStride;

  const int end = first + Shape::kQueries < context ? first + Shape::kQueries : context;
  load_tile<kHead, Shape::kQueries>(queries, head.query, first, context, stride);
  load_tile<kHead, Shape::kQueries>(gradients, p.gradient + head.out, first, context, width);
  tiles.load(0, 0);

  float log_sums[kTiles][2], deltas[kTiles][2];
  TOMBOLO_UNROLL
  for (int t = 0; t < kTiles; ++t) {
    TOMBOLO_UNROLL
    for (int half = 0; half < 2; ++half) {
      const int query = own + t * 16 + half * 8 + lane / 4;
      const std::size_t at = head.log_sum + static_cast<std::size_t>(query);
      log_sums[t][half] = query < context ? p.log_sum[at] * kLog2E : INFINITY;
      deltas[t][half] = query < context ? p.delta[at] : 0;
    }
  }
  float sums[kTiles][kHead / 8][4] = {};
  const float scale = p.scale * kLog2E;
  for (int key = 0, step = 0; key < end; key += kKeys, ++step) {
    tiles.arrive();
    if (key + kKeys < end) tiles.load(step + 1, key + kKeys);
    if (key > own + kTiles * 16 - 1) continue;  // none of the warp's queries sees these keys
    float weights[kTiles][kKeys / 8][4], score_gradients[kTiles][kKeys / 8][4];
    multiply_by_tokens<kHead, kTiles, kKeys>(weights, own_queries, tiles.first(step));
    multiply_by_tokens<kHead, kTiles, kKeys>(score_gradients, own_gradients, tiles.second(step));
    const bool mask = key + kKeys - 1 > own;
    TOMBOLO_UNROLL
    for (int t = 0; t < kTiles; ++t) {
      TOMBOLO_UNROLL
      for (int n = 0; n < kKeys / 8; ++n) {
        TOMBOLO_UNROLL
        for (int i = 0; i < 4; ++i) {
          const int half = i / 2;
          float weight = exp2_fast(weights[t][n][i] * scale - log_sums[t][half]);
          if (mask && key + n * 8 + lane % 4 * 2 + i % 2 > own + t * 16 + half * 8 + lane / 4) weight = 0;
          score_gradients[t][n][i] = weight * (score_gradients[t][n][i] - deltas[t][half]);
        }
      }
    }
    add_weighted_tokens<kHead, kTiles, kKeys>(sums, score_gradients, tiles.first(step));
  }

  float scales[kTiles][2];
  TOMBOLO_UNROLL
  for (int t = 0; t < kTiles; ++t) scales[t][0] = scales[t][1] = p.scale;
  // Only this warp reads its rows of the queries.
  store_rows<kHead, kTiles>(p.qkv_gradient + (head.query - p.qkv), own_queries, sums, scales, own, context,
                            stride);
}

}  // namespace tombolo::trainer::cuda::gpu
