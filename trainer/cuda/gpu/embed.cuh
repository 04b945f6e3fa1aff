// Embeddings: rows of two tables summed, and gradients summed into rows. All are bound by memory.
#pragma once

#include "trainer/cuda/gpu/launches.h"
#include "trainer/cuda/gpu/values.cuh"

namespace tombolo::trainer::cuda::gpu {

inline constexpr int kEmbedThreads = 256;
inline constexpr int kEmbedWarps = kEmbedThreads / kWarp;

template <typename T>
struct EmbedArguments {
  T* out;
  const T *token_embedding, *position_embedding;
  const std::int32_t* tokens;
  std::size_t count, context, width;
  bool words;
};

/// One warp per token. Per element it reads two and writes one: 6 bytes in bf16, 12 in fp32, of which the
/// tables' rows often come from the cache.
template <typename T>
TOMBOLO_KERNEL(kEmbedThreads)
embed_kernel(EmbedArguments<T> p) {
  const std::size_t token = static_cast<std::size_t>(block_x()) * kEmbedWarps + thread_x() / kWarp;
  if (token >= p.count) return;
  const T* const row = p.token_embedding + static_cast<std::size_t>(p.tokens[token]) * p.width;
  const T* const position = p.position_embedding + token % p.context * p.width;
  for (std::size_t at = thread_x() % kWarp * kPiece; at < p.width; at += kWarp * kPiece) {
    float sum[kPiece], other[kPiece];
    load_piece(sum, row + at, p.width - at, p.words);
    load_piece(other, position + at, p.width - at, p.words);
    TOMBOLO_UNROLL
    for (int i = 0; i < kPiece; ++i) sum[i] += other[i];
    store_piece(p.out + token * p.width + at, sum, p.width - at, p.words);
  }
}

void launch_operation(const Launcher& launcher, const Embed& embed) {
  if (embed.count == 0) return;
  by_element(embed.out.element, [&]<typename T>(T*) {
    const bool words = embed.width % kPiece == 0 &&
                       aligned_for_words(embed.out.at, embed.token_embedding.at, embed.position_embedding.at);
    launch(launcher, embed_kernel<T>, {blocks_for(embed.count, kEmbedWarps)}, kEmbedThreads, 0,
           EmbedArguments<T>{typed<T>(embed.out), typed<T>(embed.token_embedding),
                             typed<T>(embed.position_embedding), embed.tokens, embed.count, embed.context,
                             embed.width, words});
  });
}

template <typename T>
struct EmbedBackwardArguments {
  float *token_gradient, *position_gradient;
  const T* gradient;
  const std::int32_t *tokens, *order, *runs;
  std::size_t count, context, width;
  bool words;
};

/// to += the sum of the rows row(0) .. row(count - 1) of the gradient, in this order, in the lane's columns.
/// Four rows are under way at once; they are added one after another.
template <typename T, typename RowOf>
TOMBOLO_GPU void add_rows(float* to, const T* gradient, std::size_t count, std::size_t width, std::size_t at,
                          bool words, const RowOf& row_of) {
  constexpr int kUnderWay = 4;
  float sum[kPiece] = {};
  std::size_t done = 0;
  for (; done + kUnderWay <= count; done += kUnderWay) {
    float rows[kUnderWay][kPiece];
    TOMBOLO_UNROLL
    for (int r = 0; r < kUnderWay; ++r)
      load_piece(rows[r], gradient + row_of(done + static_cast<std::size_t>(r)) * width + at, width - at,
                 words);
    TOMBOLO_UNROLL
    for (int r = 0; r < kUnderWay; ++r) {
      TOMBOLO_UNROLL
      for (int i = 0; i < kPiece; ++i) sum[i] += rows[r][i];
    }
  }
  for (; done < count; ++done) {
    float row[kPiece];
    load_piece(row, gradient + row_of(done) * width + at, width - at, words);
    TOMBOLO_UNROLL
    for (int i = 0; i < kPiece; ++i) sum[i] += row[i];
  }
  float before[kPiece];
  load_piece(before, to + at, width - at, words);
  TOMBOLO_UNROLL
  for (int i = 0; i < kPiece; ++i) sum[i] += before[i];
  store_piece(to + at, sum, width - at, words);
}

/// One warp per run of equal tokens (block_y: 256 columns each). Reads the gradient once, and reads and
/// writes one row of fp32 per run; a token that is most of the batch makes one warp walk through all of it.
template <typename T>
TOMBOLO_KERNEL(kEmbedThreads)
embed_token_gradient_kernel(EmbedBackwardArguments<T> p) {
  const std::size_t run = static_cast<std::size_t>(block_x()) * kEmbedWarps + thread_x() / kWarp;
  const std::size_t at = (static_cast<std::size_t>(block_y()) * kWarp + thread_x() % kWarp) * kPiece;
  if (run >= p.count || at >= p.width) return;
  const auto begin = static_cast<std::size_t>(p.runs[run]), end = static_cast<std::size_t>(p.runs[run + 1]);
  if (begin >= end) return;
  const std::int32_t* const order = p.order + begin;
  add_rows(p.token_gradient + static_cast<std::size_t>(p.tokens[order[0]]) * p.width, p.gradient, end - begin,
           p.width, at, p.words, [&](std::size_t i) { return static_cast<std::size_t>(order[i]); });
}

/// One warp per position. Reads the gradient once.
template <typename T>
TOMBOLO_KERNEL(kEmbedThreads)
embed_position_gradient_kernel(EmbedBackwardArguments<T> p) {
  const std::size_t position = static_cast<std::size_t>(block_x()) * kEmbedWarps + thread_x() / kWarp;
  const std::size_t at = (static_cast<std::size_t>(block_y()) * kWarp + thread_x() % kWarp) * kPiece;
  if (position >= p.context || position >= p.count || at >= p.width) return;
  const std::size_t rows = (p.count - position + p.context - 1) / p.context;
  add_rows(p.position_gradient + position * p.width, p.gradient, rows, p.width, at, p.words,
           [&](std::size_t i) { return position + i * p.context; });
}

void launch_operation(const Launcher& launcher, const EmbedBackward& embed) {
  if (embed.count == 0) return;
  by_element(embed.gradient.element, [&]<typename T>(T*) {
    const bool words = embed.width % kPiece == 0 &&
                       aligned_for_words(embed.token_gradient, embed.position_gradient, embed.gradient.at);
    const EmbedBackwardArguments<T> arguments{embed.token_gradient,
                                              embed.position_gradient,
                                              typed<T>(embed.gradient),
                                              embed.tokens,
                                              embed.order,
                                              embed.runs,
                                              embed.count,
                                              embed.context,
                                              embed.width,
                                              words};
    const unsigned columns = blocks_for(embed.width, kWarp * kPiece);
    launch(launcher, embed_token_gradient_kernel<T>, {blocks_for(embed.count, kEmbedWarps), columns},
           kEmbedThreads, 0, arguments);
    const std::size_t positions = embed.context < embed.count ? embed.context : embed.count;
    launch(launcher, embed_position_gradient_kernel<T>, {blocks_for(positions, kEmbedWarps), columns},
           kEmbedThreads, 0, arguments);
  });
}

}  // namespace tombolo::trainer::cuda::gpu
