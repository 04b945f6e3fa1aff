// What is done element by element: additions, conversions, the optimizer's step; and sums of all elements.
// All are bound by memory.
#pragma once

#include "trainer/cuda/gpu/launches.h"
#include "trainer/cuda/gpu/values.cuh"

namespace tombolo::trainer::cuda::gpu {

inline constexpr int kElementThreads = 256;
inline constexpr std::size_t kElementsOfBlock = static_cast<std::size_t>(kElementThreads) * kPiece;

/// Where this thread's piece begins among those of the whole grid.
TOMBOLO_GPU std::size_t first_piece() {
  return (static_cast<std::size_t>(block_x()) * kElementThreads + thread_x()) * kPiece;
}
/// From one piece of a thread to its next.
TOMBOLO_GPU std::size_t piece_step() {
  return static_cast<std::size_t>(blocks_x()) * kElementsOfBlock;
}
/// Blocks that keep the GPU busy: each processor holds eight of 256 threads.
inline unsigned element_blocks(const Launcher& launcher, std::size_t count) {
  const unsigned wanted = blocks_for(count, kElementsOfBlock),
                 most = static_cast<unsigned>(launcher.processors) * 8;
  return wanted < most ? wanted : most;
}

/// Reads 8 bytes and writes 4 per element.
TOMBOLO_KERNEL(kElementThreads)
add_kernel(float* to, const float* from, std::size_t count, bool words) {
  for (std::size_t at = first_piece(); at < count; at += piece_step()) {
    float sum[kPiece], other[kPiece];
    load_stretch(sum, to + at, count - at, words);
    load_stretch(other, from + at, count - at, words);
    TOMBOLO_UNROLL
    for (int i = 0; i < kPiece; ++i) sum[i] += other[i];
    store_stretch(to + at, sum, count - at, words);
  }
}

void launch_operation(const Launcher& launcher, const Add& add) {
  if (add.count == 0) return;
  launch(launcher, add_kernel, {element_blocks(launcher, add.count)}, kElementThreads, 0, add.to, add.from,
         add.count, aligned_for_words(add.to, add.from));
}

/// Reads and writes each element once.
template <typename To, typename From>
TOMBOLO_KERNEL(kElementThreads)
convert_kernel(To* to, const From* from, std::size_t count, bool words) {
  for (std::size_t at = first_piece(); at < count; at += piece_step()) {
    float value[kPiece];
    load_stretch(value, from + at, count - at, words);
    store_stretch(to + at, value, count - at, words);
  }
}

void launch_operation(const Launcher& launcher, const Convert& convert) {
  if (convert.count == 0) return;
  by_element(convert.to.element, [&]<typename To>(To*) {
    by_element(convert.from.element, [&]<typename From>(From*) {
      launch(launcher, convert_kernel<To, From>, {element_blocks(launcher, convert.count)}, kElementThreads,
             0, typed<To>(convert.to), static_cast<const From*>(typed<From>(convert.from)), convert.count,
             aligned_for_words(convert.to.at, convert.from.at));
    });
  });
}

/// The block's sum of `value` by a fixed tree, in its first thread.
TOMBOLO_GPU double block_sum(double value) {
  TOMBOLO_SHARED double sums[kElementThreads / kWarp];
  value = warp_sum(value);
  if (thread_x() % kWarp == 0) sums[thread_x() / kWarp] = value;
  sync_block();
  value = 0;
  for (int i = 0; i < kElementThreads / kWarp; ++i) value += sums[i];
  return value;
}

/// Reads 4 bytes per element. Eight are added in fp32, all else in double: a GPU without many double units is
/// still bound by memory.
TOMBOLO_KERNEL(kElementThreads)
sum_kernel(double* parts, const float* x, std::size_t count, bool squares, bool words) {
  double total = 0;
  for (std::size_t at = first_piece(); at < count; at += piece_step()) {
    float value[kPiece];
    load_stretch(value, x + at, count - at, words);
    if (squares) {
      TOMBOLO_UNROLL
      for (int i = 0; i < kPiece; ++i) value[i] *= value[i];
    }
    total += static_cast<double>(((value[0] + value[1]) + (value[2] + value[3])) +
                                 ((value[4] + value[5]) + (value[6] + value[7])));
  }
  total = block_sum(total);
  if (thread_x() == 0) parts[block_x()] = total;
}

/// *sum += parts[0] + ...; one block.
TOMBOLO_KERNEL(kElementThreads) add_sums_kernel(double* sum, const double* parts, unsigned count) {
  double total = 0;
  for (unsigned at = thread_x(); at < count; at += kElementThreads) total += parts[at];
  total = block_sum(total);
  if (thread_x() == 0) *sum += total;
}

void launch_operation(const Launcher& launcher, const Sum& sum) {
  if (sum.count == 0) return;
  // By the count alone, so that every GPU adds in the same order.
  const unsigned wanted = blocks_for(sum.count, kElementsOfBlock);
  const unsigned blocks = wanted < kSumScratch ? wanted : static_cast<unsigned>(kSumScratch);
  launch(launcher, sum_kernel, {blocks}, kElementThreads, 0, sum.scratch, sum.x, sum.count, sum.squares,
         aligned_for_words(sum.x));
  launch(launcher, add_sums_kernel, {1}, kElementThreads, 0, sum.sum, static_cast<const double*>(sum.scratch),
         blocks);
}

template <typename Moment>
struct UpdateArguments {
  float* parameters;
  Bfloat16* copy;  ///< null where there is none
  Moment *first_moment, *second_moment;
  const float* gradients;
  const Range* ranges;
  const AdamWStep* step;
  const std::int64_t* step_number;
  bool aligned;  ///< the arenas are, so that a range is where it begins at a multiple of eight
};

TOMBOLO_GPU void store_moment(float* to, float value, std::uint32_t /*random*/) {
  *to = value;
}
TOMBOLO_GPU void store_moment(Bfloat16* to, float value, std::uint32_t random) {
  to->bits = bfloat16_bits_at_random(bits_of(value), random);
}
TOMBOLO_GPU void store_moments(float* to, const float (&values)[kPiece], const std::uint32_t (&)[kPiece],
                               unsigned /*shift*/) {
  store_words(to, values);
}
TOMBOLO_GPU void store_moments(Bfloat16* to, const float (&values)[kPiece],
                               const std::uint32_t (&random)[kPiece], unsigned shift) {
  std::uint32_t words[kPiece / 2];
  TOMBOLO_UNROLL
  for (int i = 0; i < kPiece / 2; ++i) {
    const std::uint32_t low = bfloat16_bits_at_random(bits_of(values[2 * i]), random[2 * i] >> shift);
    const std::uint32_t high =
        bfloat16_bits_at_random(bits_of(values[2 * i + 1]), random[2 * i + 1] >> shift);
    words[i] = low | high << 16;
  }
  *reinterpret_cast<Word4*>(to) = {words[0], words[1], words[2], words[3]};
}

/// block_y: the range. Per element it reads 16 bytes and writes 14 with moments in fp32 and a copy in bf16;
/// 12 and 10 with moments in bf16.
template <typename Moment>
TOMBOLO_KERNEL(kElementThreads)
adamw_kernel(UpdateArguments<Moment> p) {
  const Range range = p.ranges[block_y()];
  const AdamWStep s = *p.step;
  const std::int64_t step_number = *p.step_number;
  const float decay = range.decays != 0 ? s.decay : 1.0F;
  const bool aligned = p.aligned && range.begin % kPiece == 0;
  for (std::size_t offset = first_piece(); offset < range.count; offset += piece_step()) {
    const std::size_t at = range.begin + offset, left = range.count - offset;
    const bool words = aligned && left >= kPiece;
    float parameter[kPiece], gradient[kPiece], first[kPiece], second[kPiece];
    std::uint32_t random[kPiece];
    load_piece(parameter, p.parameters + at, left, words);
    load_piece(gradient, p.gradients + at, left, words);
    load_piece(first, p.first_moment + at, left, words);
    load_piece(second, p.second_moment + at, left, words);
    TOMBOLO_UNROLL
    for (int i = 0; i < kPiece; ++i) {
      const float g = gradient[i] * s.gradient_scale;
      first[i] = s.beta1 * first[i] + (1.0F - s.beta1) * g;
      second[i] = s.beta2 * second[i] + (1.0F - s.beta2) * (g * g);
      parameter[i] = parameter[i] * decay - s.rate * first[i] / (sqrtf(second[i]) * s.root_scale + s.epsilon);
      random[i] =
          sizeof(Moment) == sizeof(float) ? 0 : rounding_bits(at + static_cast<std::size_t>(i), step_number);
    }
    store_piece(p.parameters + at, parameter, left, words);
    if (p.copy != nullptr) store_piece(p.copy + at, parameter, left, words);
    if (words) {
      store_moments(p.first_moment + at, first, random, 0);
      store_moments(p.second_moment + at, second, random, 16);
    } else {
      for (std::size_t i = 0; i < kPiece && i < left; ++i) {
        store_moment(p.first_moment + at + i, first[i], random[i] & 0xFFFFU);
        store_moment(p.second_moment + at + i, second[i], random[i] >> 16);
      }
    }
  }
}

void launch_operation(const Launcher& launcher, const AdamWUpdate& update) {
  if (update.range_count == 0 || update.largest == 0) return;
  by_element(update.first_moment.element, [&]<typename Moment>(Moment*) {
    const bool aligned = aligned_for_words(update.parameters, update.copy.at, update.first_moment.at,
                                           update.second_moment.at, update.gradients);
    launch(
        launcher, adamw_kernel<Moment>,
        {element_blocks(launcher, update.largest), static_cast<unsigned>(update.range_count)},
        kElementThreads, 0,
        UpdateArguments<Moment>{update.parameters, typed<Bfloat16>(update.copy),
                                typed<Moment>(update.first_moment), typed<Moment>(update.second_moment),
                                update.gradients, update.ranges, update.step, update.step_number, aligned});
  });
}

}  // namespace tombolo::trainer::cuda::gpu
