// Reads and writes that allow any alignment: the caller's buffers may start anywhere.
#pragma once

#include <cstddef>
#include <cstring>

namespace tombolo::collectives {

/// The element `index` of an array of T that begins at `from`.
template <typename T>
inline __attribute__((always_inline)) T load(const std::byte* from, std::size_t index) noexcept {
  T value;
  std::memcpy(&value, from + index * sizeof(T), sizeof(T));
  return value;
}
template <typename T>
inline __attribute__((always_inline)) void store(std::byte* to, std::size_t index, T value) noexcept {
  std::memcpy(to + index * sizeof(T), &value, sizeof(T));
}

}  // namespace tombolo::collectives
