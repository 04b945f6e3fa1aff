#include "planner/simulate/log_line.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <limits>

namespace tombolo::planner {

namespace {

constexpr double kLeastFigure = 1e-9, kMostFigure = 1e15, kMostCount = 1e9;

/// What follows a title, without the blanks; nothing where the line lacks the title.
std::optional<std::string_view> text_after(std::string_view title, std::string_view line) {
  const auto begin = line.find(title);
  if (begin == std::string_view::npos) return std::nullopt;
  std::string_view rest = line.substr(begin + title.size());
  rest.remove_prefix(std::min(rest.find_first_not_of(' '), rest.size()));
  return rest;
}

bool is_digit(char one) {
  return one >= '0' && one <= '9';
}

/// Whether a comma at `at` sets thousands apart: three digits follow it, and no fourth.
bool sets_thousands_apart(std::string_view text, std::size_t at) {
  constexpr std::size_t kDigits = 3;
  const std::string_view after = text.substr(at + 1);
  return after.size() >= kDigits && std::ranges::all_of(after.substr(0, kDigits), is_digit) &&
         (after.size() == kDigits || !is_digit(after[kDigits]));
}

}  // namespace

std::optional<double> number_after(std::string_view title, std::string_view line) {
  constexpr double kNoNumber = std::numeric_limits<double>::quiet_NaN();
  const auto text = text_after(title, line);
  if (!text) return std::nullopt;
  std::array<char, 48> digits;
  std::size_t size = 0, at = 0;
  bool fraction = false;
  for (; at < text->size() && size < digits.size(); ++at) {
    const char one = (*text)[at];
    if (one == ',' && size > 0 && !fraction && sets_thousands_apart(*text, at)) continue;
    const bool part = is_digit(one) || one == '.' || one == 'e' || one == 'E' || one == '+' || one == '-';
    if (!part) break;
    fraction |= one == '.' || one == 'e' || one == 'E';
    digits[size++] = one;
  }
  double number = 0;
  const auto [end, error] = std::from_chars(digits.data(), digits.data() + size, number);
  const bool whole = error == std::errc() && end == digits.data() + size;
  const bool ends =
      at == text->size() || std::string_view(" \t|,;/)]%").find((*text)[at]) != std::string_view::npos;
  const bool sound = number == 0 || (number >= kLeastFigure && number <= kMostFigure);
  return whole && ends && sound ? number : kNoNumber;
}

int count_after(std::string_view title, std::string_view line) {
  const double number = number_after(title, line).value_or(0);
  if (!(number >= 1 && number <= kMostCount)) return 0;
  return static_cast<int>(std::lround(number));
}

std::int64_t step_number_after(std::string_view title, std::string_view line) {
  const double number = number_after(title, line).value_or(-1);
  return std::isnan(number) ? -1 : std::llround(number);
}

double figure_after(std::string_view title, std::string_view line, bool required, std::string& problem) {
  constexpr std::size_t kQuoted = 20;
  const auto number = number_after(title, line);
  if (number && (*number > 0 || (*number == 0 && !required))) return *number;
  if (number)
    problem = fmt::format("\"{}\" is followed by \"{}\", expected a number > 0", title,
                          text_after(title, line)->substr(0, kQuoted));
  else if (required)
    problem = fmt::format("\"{}\" is missing", title);
  return 0;
}

}  // namespace tombolo::planner
