#include "tools/cli/validators.h"

#include <fmt/format.h>

#include <charconv>

namespace tombolo::tools {

std::string above_zero(const std::string& text) {
  double value = 0;
  const char* const last = text.data() + text.size();
  const auto [end, status] = std::from_chars(text.data(), last, value);
  if (status == std::errc() && end == last && value > 0) return {};
  return fmt::format("expected a number > 0, found {}", text);
}

}  // namespace tombolo::tools
