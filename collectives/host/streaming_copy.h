// Copies of what is too much for the caches.
#pragma once

#include <cstddef>

namespace tombolo::collectives {

/// Whether the processor can write past the caches.
#if defined(__SSE2__)
inline constexpr bool kCanStream = true;
#else
inline constexpr bool kCanStream = false;
#endif

/// As memcpy(). Where kCanStream, what is written goes past the caches: no line is read before it is
/// overwritten, and none of `from` makes room for it. Whoever reads `to` soon waits for the memory instead.
/// Other threads see all of it after the writer's next release.
void copy_past_caches(std::byte* to, const std::byte* from, std::size_t bytes) noexcept;

}  // namespace tombolo::collectives
