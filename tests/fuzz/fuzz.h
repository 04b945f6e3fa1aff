// Shared by all targets: the entry that libFuzzer calls, and a check that stays in every build.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <span>
#include <string_view>
#include <vector>

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size);

namespace tombolo::fuzz {

/// A condition that holds whatever the input was.
#define FUZZ_CHECK(condition)                                                      \
  do {                                                                             \
    if (!(condition)) {                                                            \
      std::fprintf(stderr, "%s:%d: not so: %s\n", __FILE__, __LINE__, #condition); \
      std::abort();                                                                \
    }                                                                              \
  } while (false)

inline std::span<const std::byte> bytes_of(const std::uint8_t* data, std::size_t size) {
  return std::as_bytes(std::span(data, size));
}
inline std::string_view text_of(const std::uint8_t* data, std::size_t size) {
  return {reinterpret_cast<const char*>(data), size};
}

/// From this first byte on, enlarged() repeats the rest. It takes its time, so most inputs stay as they are.
inline constexpr std::uint8_t kRepeated = 0xe0;

/// The input without its first byte; by that byte repeated until it is large, since some faults are a matter
/// of size.
inline std::vector<std::uint8_t> enlarged(const std::uint8_t* data, std::size_t size) {
  constexpr std::size_t kLarge = 64 << 10;
  if (size == 0) return {};
  const std::vector<std::uint8_t> once(data + 1, data + size);
  std::vector<std::uint8_t> all = once;
  while (data[0] >= kRepeated && !once.empty() && all.size() < kLarge)
    all.insert(all.end(), once.begin(), once.end());
  return all;
}

}  // namespace tombolo::fuzz
