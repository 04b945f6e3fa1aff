// How numbers become bfloat16, for the host's reference and for kernels: both must give the same bits.
//
// A bfloat16 is the upper half of a float: sign, 8 bits of exponent, 7 of fraction.
#pragma once

#include <cstdint>

#if defined(__CUDACC__)
#define TOMBOLO_HOST_DEVICE __host__ __device__
#else
#define TOMBOLO_HOST_DEVICE
#endif

namespace tombolo::trainer::cuda {

/// The upper half of a float's bits, rounded to nearest, ties to even. Of a NaN a quiet one.
TOMBOLO_HOST_DEVICE constexpr std::uint16_t bfloat16_bits(std::uint32_t float_bits) noexcept {
  if ((float_bits & 0x7fffffffU) > 0x7f800000U) return static_cast<std::uint16_t>((float_bits >> 16) | 0x40U);
  return static_cast<std::uint16_t>((float_bits + 0x7fffU + ((float_bits >> 16) & 1U)) >> 16);
}

/// The upper half of a float's bits, rounded away from zero with the probability that the lower half states
/// (of 65536): up where lower half + `random` (16 bits) carries. Infinities and NaNs stay what they are.
TOMBOLO_HOST_DEVICE constexpr std::uint16_t bfloat16_bits_at_random(std::uint32_t float_bits,
                                                                    std::uint32_t random) noexcept {
  if ((float_bits & 0x7f800000U) == 0x7f800000U) return bfloat16_bits(float_bits);
  return static_cast<std::uint16_t>((float_bits + (random & 0xffffU)) >> 16);
}

/// 32 random bits for the moments of one element at one step: the first moment takes the lower 16, the second
/// the upper. A counter-based hash: SplitMix64's finalizer over element + step x an odd constant.
TOMBOLO_HOST_DEVICE constexpr std::uint32_t rounding_bits(std::uint64_t element, std::int64_t step) noexcept {
  std::uint64_t value = element + static_cast<std::uint64_t>(step) * 0xd1342543de82ef95ULL;
  value += 0x9e3779b97f4a7c15ULL;
  value = (value ^ (value >> 30)) * 0xbf58476d1ce4e5b9ULL;
  value = (value ^ (value >> 27)) * 0x94d049bb133111ebULL;
  return static_cast<std::uint32_t>((value ^ (value >> 31)) >> 32);
}

}  // namespace tombolo::trainer::cuda
