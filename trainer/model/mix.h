// Random bits from a counter.
#pragma once

#include <cstdint>

namespace tombolo::trainer {

/// SplitMix64's finalizer: 64 well-mixed bits, another value for each argument.
constexpr std::uint64_t mix(std::uint64_t value) noexcept {
  value += 0x9e3779b97f4a7c15ULL;
  value = (value ^ (value >> 30)) * 0xbf58476d1ce4e5b9ULL;
  value = (value ^ (value >> 27)) * 0x94d049bb133111ebULL;
  return value ^ (value >> 31);
}

}  // namespace tombolo::trainer
