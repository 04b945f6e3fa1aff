// Softmax, loss and the loss's gradient of rows of scores; bound by memory.
#pragma once

#include "trainer/cuda/gpu/launches.h"
#include "trainer/cuda/gpu/values.cuh"

namespace tombolo::trainer::cuda::gpu {

inline constexpr int kCrossEntropyThreads = 512;

template <typename T>
struct CrossEntropyArguments {
  T* scores;
  float* losses;
  const std::int32_t* targets;
  std::size_t vocabulary, stride;
  float scale;
  bool gradient, words;
};

/// The largest score of some, and the sum of exp(score - largest).
struct Softmax {
  float largest, sum;
};

TOMBOLO_GPU Softmax combined(const Softmax& one, const Softmax& other) {
  // A thread without scores has minus infinity and 0, and the difference of two such is no number.
  const float largest = larger(one.largest, other.largest);
  if (largest == -INFINITY) return one;
  return {largest, one.sum * expf(one.largest - largest) + other.sum * expf(other.largest - largest)};
}

/// One block per row. The first pass reads the row once and keeps maximum and sum as it goes; the second
/// finds the row in the L2 cache and writes the gradient. Per element 4 bytes in bf16 (2 read, 2 written), 8
/// in fp32.
template <typename T>
TOMBOLO_KERNEL(kCrossEntropyThreads)
cross_entropy_kernel(CrossEntropyArguments<T> p) {
  T* const scores = p.scores + static_cast<std::size_t>(block_x()) * p.stride;
  const auto target = static_cast<std::size_t>(p.targets[block_x()]);
  const float target_score = value_of(scores[target]);
  const std::size_t first = static_cast<std::size_t>(thread_x()) * kPiece;
  constexpr std::size_t kStep = static_cast<std::size_t>(kCrossEntropyThreads) * kPiece;
  Softmax own{-INFINITY, 0};
  for (std::size_t at = first; at < p.vocabulary; at += kStep) {
    float score[kPiece];
    load_stretch(score, scores + at, p.vocabulary - at, p.words);
    float largest = own.largest;
    TOMBOLO_UNROLL
    for (int i = 0; i < kPiece; ++i)
      if (at + static_cast<std::size_t>(i) < p.vocabulary) largest = larger(largest, score[i]);
    if (largest == -INFINITY) continue;
    float sum = own.sum * expf(own.largest - largest);
    TOMBOLO_UNROLL
    for (int i = 0; i < kPiece; ++i)
      if (at + static_cast<std::size_t>(i) < p.vocabulary) sum += expf(score[i] - largest);
    own = {largest, sum};
  }
  for (int mask = kWarp / 2; mask > 0; mask /= 2)
    own = combined(own, {shuffle_xor(own.largest, mask), shuffle_xor(own.sum, mask)});
  constexpr int kWarps = kCrossEntropyThreads / kWarp;
  TOMBOLO_SHARED float shares[kWarps][2];
  if (thread_x() % kWarp == 0) {
    shares[thread_x() / kWarp][0] = own.largest;
    shares[thread_x() / kWarp][1] = own.sum;
  }
  sync_block();  // after which nobody reads the target's score, and all may write
  Softmax all{shares[0][0], shares[0][1]};
  for (int i = 1; i < kWarps; ++i) all = combined(all, {shares[i][0], shares[i][1]});
  if (thread_x() == 0) p.losses[block_x()] = logf(all.sum) + (all.largest - target_score);
  if (!p.gradient) return;
  const float factor = p.scale / all.sum;
  for (std::size_t at = first; at < p.stride; at += kStep) {
    float score[kPiece];
    load_stretch(score, scores + at, p.stride - at, p.words);
    TOMBOLO_UNROLL
    for (int i = 0; i < kPiece; ++i) {
      const std::size_t column = at + static_cast<std::size_t>(i);
      const float share = expf(score[i] - all.largest) * factor;
      score[i] = column >= p.vocabulary ? 0 : column == target ? share - p.scale : share;
    }
    store_stretch(scores + at, score, p.stride - at, p.words);
  }
}

void launch_operation(const Launcher& launcher, const CrossEntropy& operation) {
  if (operation.rows == 0) return;
  by_element(operation.scores.element, [&]<typename T>(T*) {
    const bool words = operation.stride % kPiece == 0 && aligned_for_words(operation.scores.at);
    launch(launcher, cross_entropy_kernel<T>, {static_cast<unsigned>(operation.rows)}, kCrossEntropyThreads,
           0,
           CrossEntropyArguments<T>{typed<T>(operation.scores), operation.losses, operation.targets,
                                    operation.vocabulary, operation.stride, operation.scale,
                                    operation.gradient, words});
  });
}

}  // namespace tombolo::trainer::cuda::gpu
