#include "collectives/host/streaming_copy.h"

#include <algorithm>
#include <cstdint>
#include <cstring>

#if defined(__SSE2__)
#include <emmintrin.h>
#endif

namespace tombolo::collectives {

void copy_past_caches(std::byte* to, const std::byte* from, std::size_t bytes) noexcept {
  if (bytes == 0 || to == from) return;
#if defined(__SSE2__)
  constexpr std::size_t kLine = 64, kAhead = 1024;
  const std::size_t before = std::min(bytes, -reinterpret_cast<std::uintptr_t>(to) % kLine);
  std::memcpy(to, from, before);
  to += before, from += before, bytes -= before;
  for (; bytes >= kLine; to += kLine, from += kLine, bytes -= kLine) {
    _mm_prefetch(reinterpret_cast<const char*>(from) + kAhead,
                 _MM_HINT_T0);  // beyond the end it does nothing
    const auto* lines = reinterpret_cast<const __m128i*>(from);
    const __m128i first = _mm_loadu_si128(lines), second = _mm_loadu_si128(lines + 1),
                  third = _mm_loadu_si128(lines + 2), fourth = _mm_loadu_si128(lines + 3);
    auto* const written = reinterpret_cast<__m128i*>(to);
    _mm_stream_si128(written, first);
    _mm_stream_si128(written + 1, second);
    _mm_stream_si128(written + 2, third);
    _mm_stream_si128(written + 3, fourth);
  }
  _mm_sfence();  // such writes wait for no release
#endif
  std::memcpy(to, from, bytes);
}

}  // namespace tombolo::collectives
