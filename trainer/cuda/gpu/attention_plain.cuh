// Attention for any head size up to 256 and both elements: one warp per token, all in fp32. It is what fp32
// runs, where its arithmetic is the CPU's but for the order of sums; for bf16 flash_forward.cuh and
// flash_backward.cuh take the head sizes in use.
#pragma once

#include "trainer/cuda/gpu/launches.h"
#include "trainer/cuda/gpu/values.cuh"

namespace tombolo::trainer::cuda::gpu {

inline constexpr int kAttentionThreads = 128;
inline constexpr int kAttentionWarps = kAttentionThreads / kWarp;
inline constexpr int kHeadShares = static_cast<int>(kLargestHead) / kWarp;  ///< of a head, that a lane holds

/// One head of one row: row block_z(), head block_y().
template <typename T>
struct HeadOfRow {
  template <typename Arguments>
  TOMBOLO_GPU explicit HeadOfRow(const Arguments& p)
      : width(p.heads * p.head_size),
        query(p.qkv + static_cast<std::size_t>(block_z()) * p.context * 3 * width + block_y() * p.head_size),
        key(query + width),
        value(key + width),
        out(static_cast<std::size_t>(block_z()) * p.context * width + block_y() * p.head_size),
        log_sum((static_cast<std::size_t>(block_z()) * p.heads + block_y()) * p.context) {}
  std::size_t width;  ///< from token to token in out; three times that in qkv
  const T *query, *key, *value;
  std::size_t out;      ///< where the head begins in out
  std::size_t log_sum;  ///< and in log_sum
};

template <typename T>
struct AttentionArguments {
  T* out;
  const T* qkv;
  float* log_sum;
  std::size_t context, heads, head_size;
  float scale;
};

template <typename T>
TOMBOLO_GPU float dot(const T* one, const T* other, std::size_t count) {
  float sum = 0;
  for (std::size_t i = 0; i < count; ++i) sum += value_of(one[i]) * value_of(other[i]);
  return sum;
}

/// One warp per query. In steps of 32 keys: every lane scores one, then every lane adds up its share of the
/// head. Per query and key 4 x head size FLOPs, and keys and values are read anew for each query, from the
/// cache.
template <typename T>
TOMBOLO_KERNEL(kAttentionThreads)
attention_kernel(AttentionArguments<T> p) {
  const HeadOfRow<T> head(p);
  const std::size_t query = static_cast<std::size_t>(block_x()) * kAttentionWarps + thread_x() / kWarp;
  if (query >= p.context) return;
  const std::size_t lane = thread_x() % kWarp;
  const T* const own = head.query + query * 3 * head.width;
  float sums[kHeadShares] = {};
  float largest = -INFINITY, total = 0;
  for (std::size_t first = 0; first <= query; first += kWarp) {
    const std::size_t key = first + lane;
    const float score =
        key <= query ? dot(own, head.key + key * 3 * head.width, p.head_size) * p.scale : -INFINITY;
    const float larger_one = larger(largest, warp_largest(score));  // finite: the first key of a step counts
    const float correction = expf(largest - larger_one), weight = expf(score - larger_one);
    largest = larger_one;
    total = total * correction + warp_sum(weight);
    TOMBOLO_UNROLL
    for (int share = 0; share < kHeadShares; ++share) sums[share] *= correction;
    const std::size_t keys = query + 1 - first < kWarp ? query + 1 - first : kWarp;
    for (std::size_t i = 0; i < keys; ++i) {
      const float factor = shuffle(weight, static_cast<int>(i));
      const T* const value = head.value + (first + i) * 3 * head.width;
      TOMBOLO_UNROLL
      for (int share = 0; share < kHeadShares; ++share) {
        const std::size_t at = static_cast<std::size_t>(share) * kWarp + lane;
        if (at < p.head_size) sums[share] += factor * value_of(value[at]);
      }
    }
  }
  TOMBOLO_UNROLL
  for (int share = 0; share < kHeadShares; ++share) {
    const std::size_t at = static_cast<std::size_t>(share) * kWarp + lane;
    if (at < p.head_size) store(p.out + head.out + query * head.width + at, sums[share] / total);
  }
  if (lane == 0) p.log_sum[head.log_sum + query] = largest + logf(total);
}

template <typename T>
struct AttentionBackwardArguments {
  T* qkv_gradient;
  const T *gradient, *out, *qkv;
  const float* log_sum;
  float* delta;  ///< one per entry of log_sum
  std::size_t context, heads, head_size;
  float scale;
};

/// delta = the sum over the head of gradient x out: what every score's gradient has in common. One warp per
/// token and head; reads both once.
template <typename T>
TOMBOLO_KERNEL(kAttentionThreads)
attention_delta_kernel(AttentionBackwardArguments<T> p) {
  const HeadOfRow<T> head(p);
  const std::size_t query = static_cast<std::size_t>(block_x()) * kAttentionWarps + thread_x() / kWarp;
  if (query >= p.context) return;
  const std::size_t begin = head.out + query * head.width;
  float sum = 0;
  for (std::size_t at = thread_x() % kWarp; at < p.head_size; at += kWarp)
    sum += value_of(p.gradient[begin + at]) * value_of(p.out[begin + at]);
  sum = warp_sum(sum);
  if (thread_x() % kWarp == 0) p.delta[head.log_sum + query] = sum;
}

/// One warp per query: its gradient, over the keys up to it. 6 x head size FLOPs per query and key.
template <typename T>
TOMBOLO_KERNEL(kAttentionThreads)
attention_query_gradient_kernel(AttentionBackwardArguments<T> p) {
  const HeadOfRow<T> head(p);
  const std::size_t query = static_cast<std::size_t>(block_x()) * kAttentionWarps + thread_x() / kWarp;
  if (query >= p.context) return;
  const std::size_t lane = thread_x() % kWarp;
  const T* const own = head.query + query * 3 * head.width;
  const T* const gradient = p.gradient + head.out + query * head.width;
  const float log_sum = p.log_sum[head.log_sum + query], delta = p.delta[head.log_sum + query];
  float sums[kHeadShares] = {};
  for (std::size_t first = 0; first <= query; first += kWarp) {
    const std::size_t key = first + lane;
    float score_gradient = 0;
    if (key <= query) {
      const float weight = expf(dot(own, head.key + key * 3 * head.width, p.head_size) * p.scale - log_sum);
      score_gradient =
          weight * (dot(gradient, head.value + key * 3 * head.width, p.head_size) - delta) * p.scale;
    }
    const std::size_t keys = query + 1 - first < kWarp ? query + 1 - first : kWarp;
    for (std::size_t i = 0; i < keys; ++i) {
      const float factor = shuffle(score_gradient, static_cast<int>(i));
      const T* const row = head.key + (first + i) * 3 * head.width;
      TOMBOLO_UNROLL
      for (int share = 0; share < kHeadShares; ++share) {
        const std::size_t at = static_cast<std::size_t>(share) * kWarp + lane;
        if (at < p.head_size) sums[share] += factor * value_of(row[at]);
      }
    }
  }
  T* const to = p.qkv_gradient + (own - p.qkv);
  TOMBOLO_UNROLL
  for (int share = 0; share < kHeadShares; ++share) {
    const std::size_t at = static_cast<std::size_t>(share) * kWarp + lane;
    if (at < p.head_size) store(to + at, sums[share]);
  }
}

/// One warp per key: its gradient and its value's, over the queries from it on. 8 x head size FLOPs per query
/// and key.
template <typename T>
TOMBOLO_KERNEL(kAttentionThreads)
attention_key_gradient_kernel(AttentionBackwardArguments<T> p) {
  const HeadOfRow<T> head(p);
  const std::size_t key = static_cast<std::size_t>(block_x()) * kAttentionWarps + thread_x() / kWarp;
  if (key >= p.context) return;
  const std::size_t lane = thread_x() % kWarp;
  const T* const own_key = head.key + key * 3 * head.width;
  const T* const own_value = head.value + key * 3 * head.width;
  float key_sums[kHeadShares] = {}, value_sums[kHeadShares] = {};
  for (std::size_t first = key; first < p.context; first += kWarp) {
    const std::size_t query = first + lane;
    float weight = 0, score_gradient = 0;
    if (query < p.context) {
      weight = expf(dot(head.query + query * 3 * head.width, own_key, p.head_size) * p.scale -
                    p.log_sum[head.log_sum + query]);
      score_gradient = weight *
                       (dot(p.gradient + head.out + query * head.width, own_value, p.head_size) -
                        p.delta[head.log_sum + query]) *
                       p.scale;
    }
    const std::size_t queries = p.context - first < kWarp ? p.context - first : kWarp;
    for (std::size_t i = 0; i < queries; ++i) {
      const float value_factor = shuffle(weight, static_cast<int>(i));
      const float key_factor = shuffle(score_gradient, static_cast<int>(i));
      const T* const row = head.query + (first + i) * 3 * head.width;
      const T* const gradient = p.gradient + head.out + (first + i) * head.width;
      TOMBOLO_UNROLL
      for (int share = 0; share < kHeadShares; ++share) {
        const std::size_t at = static_cast<std::size_t>(share) * kWarp + lane;
        if (at >= p.head_size) continue;
        value_sums[share] += value_factor * value_of(gradient[at]);
        key_sums[share] += key_factor * value_of(row[at]);
      }
    }
  }
  T* const to_key = p.qkv_gradient + (own_key - p.qkv);
  T* const to_value = p.qkv_gradient + (own_value - p.qkv);
  TOMBOLO_UNROLL
  for (int share = 0; share < kHeadShares; ++share) {
    const std::size_t at = static_cast<std::size_t>(share) * kWarp + lane;
    if (at >= p.head_size) continue;
    store(to_key + at, key_sums[share]);
    store(to_value + at, value_sums[share]);
  }
}

/// blocks of x, for each head of each row.
template <typename Operation>
Grid attention_grid(const Operation& operation, std::size_t tokens_of_block) {
  return {blocks_for(operation.context, tokens_of_block), static_cast<unsigned>(operation.heads),
          static_cast<unsigned>(operation.rows)};
}
template <typename Operation>
float attention_scale(const Operation& operation) {
  return 1.0F / sqrtf(static_cast<float>(operation.head_size));
}
template <typename T>
AttentionArguments<T> arguments_of(const Attention& o) {
  return {typed<T>(o.out), typed<T>(o.qkv), o.log_sum, o.context, o.heads, o.head_size, attention_scale(o)};
}
template <typename T>
AttentionBackwardArguments<T> arguments_of(const AttentionBackward& o) {
  return {typed<T>(o.qkv_gradient),
          typed<T>(o.gradient),
          typed<T>(o.out),
          typed<T>(o.qkv),
          o.log_sum,
          reinterpret_cast<float*>(o.scratch),
          o.context,
          o.heads,
          o.head_size,
          attention_scale(o)};
}

template <typename T>
void launch_delta(const Launcher& launcher, const AttentionBackward& operation) {
  launch(launcher, attention_delta_kernel<T>, attention_grid(operation, kAttentionWarps), kAttentionThreads,
         0, arguments_of<T>(operation));
}

inline void launch_plain_attention(const Launcher& launcher, const Attention& operation) {
  by_element(operation.qkv.element, [&]<typename T>(T*) {
    launch(launcher, attention_kernel<T>, attention_grid(operation, kAttentionWarps), kAttentionThreads, 0,
           arguments_of<T>(operation));
  });
}

inline void launch_plain_attention(const Launcher& launcher, const AttentionBackward& operation) {
  by_element(operation.qkv.element, [&]<typename T>(T*) {
    const Grid grid = attention_grid(operation, kAttentionWarps);
    const auto arguments = arguments_of<T>(operation);
    launch_delta<T>(launcher, operation);
    launch(launcher, attention_query_gradient_kernel<T>, grid, kAttentionThreads, 0, arguments);
    launch(launcher, attention_key_gradient_kernel<T>, grid, kAttentionThreads, 0, arguments);
  });
}

}  // namespace tombolo::trainer::cuda::gpu
