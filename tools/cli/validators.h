// What options may hold, in words (CLI11 itself names a number's whole range, with 309 digits).
#pragma once

#include <string>

namespace tombolo::tools {

/// For CLI11's check(): empty where `text` is a number above 0, else what was expected.
std::string above_zero(const std::string& text);

}  // namespace tombolo::tools
