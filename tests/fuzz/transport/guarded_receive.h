// A receive whose buffer shows when something was written beside it.
#pragma once

#include <algorithm>
#include <cstddef>
#include <span>
#include <vector>

#include "transport/transport.h"

namespace tombolo::transport {

inline constexpr std::byte kGuard{0xa5};
inline constexpr std::size_t kGuardBytes = 64;

struct Receive {
  std::vector<std::byte> memory;
  std::size_t size;
  Request* request = nullptr;

  explicit Receive(std::size_t wanted) : memory(wanted + 2 * kGuardBytes, kGuard), size(wanted) {}
  std::span<std::byte> buffer() { return std::span(memory).subspan(kGuardBytes, size); }
  bool intact() const {
    const auto is_guard = [](std::byte byte) { return byte == kGuard; };
    return std::all_of(memory.begin(), memory.begin() + kGuardBytes, is_guard) &&
           std::all_of(memory.end() - kGuardBytes, memory.end(), is_guard);
  }
};

}  // namespace tombolo::transport
