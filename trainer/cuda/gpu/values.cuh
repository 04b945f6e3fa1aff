// Numbers in memory as kernels read and write them: eight at a time in 128-bit words where rows are aligned,
// one at a time elsewhere. All arithmetic is in fp32; what is stored is rounded to nearest even.
#pragma once

#include "trainer/cuda/gpu/simt.h"
#include "trainer/cuda/operations/operation.h"
#include "trainer/cuda/operations/rounding.h"

namespace tombolo::trainer::cuda::gpu {

/// What one lane takes at once.
inline constexpr int kPiece = 8;

TOMBOLO_GPU float value_of(float value) {
  return value;
}
TOMBOLO_GPU float value_of(Bfloat16 value) {
  return float_of(static_cast<std::uint32_t>(value.bits) << 16);
}
TOMBOLO_GPU void store(float* to, float value) {
  *to = value;
}
TOMBOLO_GPU void store(Bfloat16* to, float value) {
  to->bits = bfloat16_bits(bits_of(value));
}

/// What a number is once it is stored.
TOMBOLO_GPU float stored(const float*, float value) {
  return value;
}
TOMBOLO_GPU float stored(const Bfloat16*, float value) {
  return float_of(static_cast<std::uint32_t>(bfloat16_bits(bits_of(value))) << 16);
}

TOMBOLO_GPU void load_words(float (&to)[kPiece], const float* from) {
  const Word4 first = reinterpret_cast<const Word4*>(from)[0],
              second = reinterpret_cast<const Word4*>(from)[1];
  const std::uint32_t words[kPiece] = {first.x,  first.y,  first.z,  first.w,
                                       second.x, second.y, second.z, second.w};
  TOMBOLO_UNROLL
  for (int i = 0; i < kPiece; ++i) to[i] = float_of(words[i]);
}
TOMBOLO_GPU void load_words(float (&to)[kPiece], const Bfloat16* from) {
  const Word4 word = *reinterpret_cast<const Word4*>(from);
  const std::uint32_t words[kPiece / 2] = {word.x, word.y, word.z, word.w};
  TOMBOLO_UNROLL
  for (int i = 0; i < kPiece / 2; ++i) {
    to[2 * i] = float_of(words[i] << 16);
    to[2 * i + 1] = float_of(words[i] & 0xFFFF0000U);
  }
}
TOMBOLO_GPU void store_words(float* to, const float (&from)[kPiece]) {
  Word4* const words = reinterpret_cast<Word4*>(to);
  words[0] = {bits_of(from[0]), bits_of(from[1]), bits_of(from[2]), bits_of(from[3])};
  words[1] = {bits_of(from[4]), bits_of(from[5]), bits_of(from[6]), bits_of(from[7])};
}
TOMBOLO_GPU void store_words(Bfloat16* to, const float (&from)[kPiece]) {
  *reinterpret_cast<Word4*>(to) = {bfloat16_pair(from[0], from[1]), bfloat16_pair(from[2], from[3]),
                                   bfloat16_pair(from[4], from[5]), bfloat16_pair(from[6], from[7])};
}

/// `left` numbers are there (8 or more: all); the others become 0. `words`: the address is a multiple of 16
/// bytes and at least 8 are left, which holds for a whole row or for none.
template <typename T>
TOMBOLO_GPU void load_piece(float (&to)[kPiece], const T* from, std::size_t left, bool words) {
  if (words) return load_words(to, from);
  TOMBOLO_UNROLL
  for (int i = 0; i < kPiece; ++i) to[i] = static_cast<std::size_t>(i) < left ? value_of(from[i]) : 0.0F;
}
template <typename T>
TOMBOLO_GPU void store_piece(T* to, const float (&from)[kPiece], std::size_t left, bool words) {
  if (words) return store_words(to, from);
  TOMBOLO_UNROLL
  for (int i = 0; i < kPiece; ++i)
    if (static_cast<std::size_t>(i) < left) store(to + i, from[i]);
}

/// The same of a stretch that may end inside a piece: words up to its last whole piece.
template <typename T>
TOMBOLO_GPU void load_stretch(float (&to)[kPiece], const T* from, std::size_t left, bool aligned) {
  load_piece(to, from, left, aligned && left >= kPiece);
}
template <typename T>
TOMBOLO_GPU void store_stretch(T* to, const float (&from)[kPiece], std::size_t left, bool aligned) {
  store_piece(to, from, left, aligned && left >= kPiece);
}

// Sums over the lanes of a warp by a fixed tree: every lane gets the same bits.
template <typename Number>
TOMBOLO_GPU Number warp_sum(Number value) {
  for (int mask = kWarp / 2; mask > 0; mask /= 2) value += shuffle_xor(value, mask);
  return value;
}
TOMBOLO_GPU float larger(float one, float other) {
  return one > other ? one : other;
}
TOMBOLO_GPU float warp_largest(float value) {
  for (int mask = kWarp / 2; mask > 0; mask /= 2) value = larger(value, shuffle_xor(value, mask));
  return value;
}

// For launches, on the host.

/// True where all are at multiples of 16 bytes; null counts as such.
template <typename... Pointers>
bool aligned_for_words(const Pointers*... pointers) {
  return ((reinterpret_cast<std::uintptr_t>(pointers) % 16 == 0) && ...);
}
template <typename T>
T* typed(const Values& values) {
  return reinterpret_cast<T*>(values.at);
}
inline unsigned blocks_for(std::size_t count, std::size_t per_block) {
  return static_cast<unsigned>((count + per_block - 1) / per_block);
}
/// Calls `function` with a null pointer of the type in memory: float* or Bfloat16*.
template <typename Function>
void by_element(Element element, const Function& function) {
  if (element == Element::kBfloat16)
    function(static_cast<Bfloat16*>(nullptr));
  else
    function(static_cast<float*>(nullptr));
}

}  // namespace tombolo::trainer::cuda::gpu
