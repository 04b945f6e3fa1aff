// fmt, header-only: the NCCL plugin may hard-link nothing but the C and C++ runtimes.
#pragma once

#ifndef FMT_HEADER_ONLY
#define FMT_HEADER_ONLY
#endif
#include <fmt/format.h>

#include <string>
#include <utility>

namespace tombolo::detail {

inline std::string format_values() {
  return {};
}

template <typename... Args>
std::string format_values(fmt::format_string<Args...> text, Args&&... args) {
  return fmt::format(text, std::forward<Args>(args)...);
}

}  // namespace tombolo::detail
