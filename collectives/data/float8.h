// The two 8-bit floats of NCCL and CUDA as bit patterns, converted through float: e4m3 (no infinity, largest
// value 448) and e5m2 (largest finite value 57344). Rounding is to nearest even and saturates: a value beyond
// the largest finite one, infinity included, becomes that one, as in CUDA's conversions with __NV_SATFINITE.
// A NaN stays one. Branch-free, so that the compiler vectorises loops over them.
#pragma once

#include <bit>
#include <cstdint>

#include "collectives/data/half.h"

namespace tombolo::collectives {

struct Float8E4m3 {
  std::uint8_t bits;
};
struct Float8E5m2 {
  std::uint8_t bits;
};

constexpr float to_float(Float8E4m3 value) noexcept {
  const std::uint32_t sign = static_cast<std::uint32_t>(value.bits & 0x80U) << 24;
  const std::uint32_t magnitude = static_cast<std::uint32_t>(value.bits & 0x7fU) << 20;
  // Times 2^120 moves the exponent bias from 7 to 127 and makes subnormals normal, exactly.
  const float scaled = std::bit_cast<float>(magnitude) * 0x1p120F;
  const std::uint32_t finite = std::bit_cast<std::uint32_t>(scaled);
  return std::bit_cast<float>((magnitude == 0x07f00000U ? 0x7fc00000U : finite) | sign);
}

/// Its bits are the upper half of a float16's.
constexpr float to_float(Float8E5m2 value) noexcept {
  return to_float(Float16{static_cast<std::uint16_t>(value.bits << 8)});
}

namespace float8 {

/// Rounds the magnitude of `value` to a float of `kMantissaBits` and an exponent of bias `kBias`; kLargest is
/// the largest finite result, kNan what a NaN becomes.
template <int kMantissaBits, int kBias, std::uint32_t kLargest, std::uint32_t kNan>
constexpr inline __attribute__((always_inline)) std::uint8_t round_to(float value) noexcept {
  constexpr int kDropped = 23 - kMantissaBits;
  constexpr std::uint32_t kRebias = static_cast<std::uint32_t>(127 - kBias) << 23;
  constexpr std::uint32_t kLeastNormal = static_cast<std::uint32_t>(128 - kBias) << 23;
  // A float of this exponent has the least subnormal as its last bit: adding it lets the adder round there.
  constexpr std::uint32_t kShift = static_cast<std::uint32_t>(128 - kBias - kMantissaBits + 23) << 23;
  const auto bits = std::bit_cast<std::uint32_t>(value);
  const std::uint32_t sign = (bits >> 24) & 0x80U;
  const std::uint32_t magnitude = bits & 0x7fffffffU;
  const std::uint32_t half = (1U << (kDropped - 1)) - 1;
  const std::uint32_t normal = (magnitude - kRebias + half + ((magnitude >> kDropped) & 1U)) >> kDropped;
  const float shifted = std::bit_cast<float>(magnitude) + std::bit_cast<float>(kShift);
  const std::uint32_t subnormal = std::bit_cast<std::uint32_t>(shifted) - kShift;
  std::uint32_t result = magnitude < kLeastNormal ? subnormal : normal;
  result = result > kLargest ? kLargest : result;
  result = magnitude > 0x7f800000U ? kNan : result;
  return static_cast<std::uint8_t>(result | sign);
}

}  // namespace float8

constexpr Float8E4m3 to_float8_e4m3(float value) noexcept {
  return {float8::round_to<3, 7, 0x7eU, 0x7fU>(value)};
}
constexpr Float8E5m2 to_float8_e5m2(float value) noexcept {
  return {float8::round_to<2, 15, 0x7bU, 0x7fU>(value)};
}

}  // namespace tombolo::collectives
