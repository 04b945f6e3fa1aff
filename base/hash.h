// Hashes that are the same on every machine and in every build: of names that processes compare by number,
// and of numbers.
#pragma once

#include <cstdint>
#include <string_view>
#include <type_traits>

namespace tombolo {

/// FNV-1a of 32 or 64 bits. It is not for values that an attacker may choose, because those can be made
/// to collide.
template <typename Word>
constexpr Word fnv1a(std::string_view text) noexcept {
  static_assert(std::is_same_v<Word, std::uint32_t> || std::is_same_v<Word, std::uint64_t>);
  constexpr bool kWide = sizeof(Word) == 8;
  constexpr auto kPrime = static_cast<Word>(kWide ? 0x100000001b3ULL : 0x01000193ULL);
  auto value = static_cast<Word>(kWide ? 0xcbf29ce484222325ULL : 0x811c9dc5ULL);
  for (const char one : text) value = static_cast<Word>((value ^ static_cast<unsigned char>(one)) * kPrime);
  return value;
}

/// SplitMix64's finalizer: 64 well-mixed bits, another value for each argument.
constexpr std::uint64_t mix(std::uint64_t value) noexcept {
  value += 0x9e3779b97f4a7c15ULL;
  value = (value ^ (value >> 30)) * 0xbf58476d1ce4e5b9ULL;
  value = (value ^ (value >> 27)) * 0x94d049bb133111ebULL;
  return value ^ (value >> 31);
}

}  // namespace tombolo
