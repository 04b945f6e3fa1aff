// Lines of the cache that are to be written soon.
#pragma once

#include <cstddef>

namespace tombolo::collectives {

/// Has the lines come to this processor's cache as its own, while it goes on: a line that another processor
/// holds is else waited for when it is written. Changes no byte.
inline void prefetch_for_write(std::byte* at, std::size_t bytes) noexcept {
  constexpr std::size_t kLine = 64;
  for (std::size_t i = 0; i < bytes; i += kLine) {
#if defined(__x86_64__)
    // The builtin takes this instruction only where the compiler is told that there is one; processors
    // without it do nothing.
    asm volatile("prefetchw %0" : : "m"(at[i]));
#else
    __builtin_prefetch(at + i, 1);
#endif
  }
}

}  // namespace tombolo::collectives
