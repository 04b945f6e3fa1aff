// Shared by all targets: the entry that libFuzzer calls, and a check that stays in every build.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <span>
#include <string>
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

/// Some faults are a matter of size: memory by the square of an input of so many bytes exceeds what
/// heap_limit.cpp grants.
inline constexpr std::size_t kLarge = 64 << 10;

/// From this first byte on, enlarged() repeats the rest. It takes its time, so most inputs stay as they are.
inline constexpr std::uint8_t kRepeated = 0xe0;

/// The input without its first byte; by that byte repeated until it is large.
inline std::vector<std::uint8_t> enlarged(const std::uint8_t* data, std::size_t size) {
  if (size == 0) return {};
  const std::vector<std::uint8_t> once(data + 1, data + size);
  std::vector<std::uint8_t> all = once;
  while (data[0] >= kRepeated && !once.empty() && all.size() < kLarge)
    all.insert(all.end(), once.begin(), once.end());
  return all;
}

/// These bytes stand in no text.
inline constexpr char kMark = '\xff', kNumber = '\xfe';

/// The text; what stands between its first two marks is repeated until the text is large, so that a document
/// can be large and whole. In each repetition its number takes the place of kNumber, so that names differ.
inline std::string grown(const std::uint8_t* data, std::size_t size) {
  const std::string_view text = text_of(data, size);
  const std::size_t first = text.find(kMark);
  const std::size_t second =
      first == std::string_view::npos ? std::string_view::npos : text.find(kMark, first + 1);
  if (second == std::string_view::npos) return std::string(text);
  const std::string_view piece = text.substr(first + 1, second - first - 1);
  std::string all(text.substr(0, first));
  for (int number = 0; all.size() < kLarge && !piece.empty(); ++number) {
    for (const char one : piece) {
      if (one == kNumber)
        all += std::to_string(number);
      else
        all += one;
    }
  }
  all += text.substr(second + 1);
  return all;
}

}  // namespace tombolo::fuzz
