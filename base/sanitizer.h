// Which sanitizer this build uses: gcc defines a macro for each, clang 14 answers __has_feature.
#pragma once

#if !defined(__has_feature)
#define TOMBOLO_HAS_FEATURE(feature) 0
#else
#define TOMBOLO_HAS_FEATURE(feature) __has_feature(feature)
#endif

namespace tombolo {

#if defined(__SANITIZE_ADDRESS__) || TOMBOLO_HAS_FEATURE(address_sanitizer)
inline constexpr bool kAddressSanitizer = true;
#else
inline constexpr bool kAddressSanitizer = false;
#endif

#if defined(__SANITIZE_THREAD__) || TOMBOLO_HAS_FEATURE(thread_sanitizer)
inline constexpr bool kThreadSanitizer = true;
#else
inline constexpr bool kThreadSanitizer = false;
#endif

inline constexpr bool kSanitized = kAddressSanitizer || kThreadSanitizer;

}  // namespace tombolo

#undef TOMBOLO_HAS_FEATURE
