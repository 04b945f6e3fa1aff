// Includes fmt, whose compiled part is base/fmt_library.cpp.
#pragma once

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
