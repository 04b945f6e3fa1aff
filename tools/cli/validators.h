// Validators for options. CLI11's own would print the ends of a range of numbers with 309 digits.
#pragma once

#include <string>

namespace tombolo::tools {

/// For CLI11's check(): empty where `text` is a number above 0, else what was expected.
std::string above_zero(const std::string& text);

}  // namespace tombolo::tools
