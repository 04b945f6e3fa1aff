// float16 and bfloat16 as bit patterns, converted through float with round-to-nearest-even. Branch-free, so
// that the compiler vectorises loops over them on any x86-64.
#pragma once

#include <bit>
#include <cstdint>

namespace tombolo::collectives {

struct Float16 {
  std::uint16_t bits;
};
struct Bfloat16 {
  std::uint16_t bits;
};

constexpr float to_float(Bfloat16 value) noexcept {
  return std::bit_cast<float>(static_cast<std::uint32_t>(value.bits) << 16);
}

constexpr Bfloat16 to_bfloat16(float value) noexcept {
  const auto bits = std::bit_cast<std::uint32_t>(value);
  const std::uint32_t rounded = (bits + 0x7fffU + ((bits >> 16) & 1U)) >> 16;
  // Rounding would carry a NaN of small payload into infinity: keep it a (quiet) NaN.
  const std::uint32_t nan = (bits >> 16) | 0x40U;
  return {static_cast<std::uint16_t>((bits & 0x7fffffffU) > 0x7f800000U ? nan : rounded)};
}

constexpr float to_float(Float16 value) noexcept {
  const std::uint32_t sign = static_cast<std::uint32_t>(value.bits & 0x8000U) << 16;
  const std::uint32_t magnitude = static_cast<std::uint32_t>(value.bits & 0x7fffU) << 13;
  // Times 2^112 moves the exponent bias from 15 to 127 and makes subnormals normal, exactly.
  const float scaled = std::bit_cast<float>(magnitude) * 0x1p112F;
  const std::uint32_t finite = std::bit_cast<std::uint32_t>(scaled);
  const std::uint32_t special = magnitude | 0x7f800000U;  // infinity and NaN keep their mantissa
  return std::bit_cast<float>((magnitude >= 0x0f800000U ? special : finite) | sign);
}

constexpr Float16 to_float16(float value) noexcept {
  const auto bits = std::bit_cast<std::uint32_t>(value);
  const std::uint32_t sign = (bits >> 16) & 0x8000U;
  const std::uint32_t magnitude = bits & 0x7fffffffU;
  // Normal results: rebias the exponent by 127 - 15 and round the 13 dropped bits; the carry may reach
  // infinity.
  const std::uint32_t normal = (magnitude - 0x38000000U + 0x0fffU + ((magnitude >> 13) & 1U)) >> 13;
  // Subnormal results: adding 0.5 lets the float adder round at 2^-24, the last bit of a float16.
  const float shifted = std::bit_cast<float>(magnitude) + 0.5F;
  const std::uint32_t subnormal = std::bit_cast<std::uint32_t>(shifted) - 0x3f000000U;
  const std::uint32_t nan = 0x7e00U | ((magnitude >> 13) & 0x03ffU);
  std::uint32_t result = magnitude < 0x38800000U ? subnormal : normal;
  result = magnitude >= 0x47800000U ? 0x7c00U : result;  // 65536 and above, and infinity
  result = magnitude > 0x7f800000U ? nan : result;
  return {static_cast<std::uint16_t>(result | sign)};
}

}  // namespace tombolo::collectives
