#include "base/parse_duration.h"

#include <charconv>

#include "base/error.h"

namespace tombolo {

Duration parse_duration(std::string_view text, std::string_view what) {
  double number = 0;
  auto [rest, status] = std::from_chars(text.data(), text.data() + text.size(), number);
  std::string_view suffix(rest, static_cast<std::size_t>(text.data() + text.size() - rest));
  double unit = suffix == "s" ? 1 : suffix == "ms" ? 1e-3 : suffix == "us" ? 1e-6 : suffix == "ns" ? 1e-9 : 0;
  if (status != std::errc{} || unit == 0 || !(number >= 0) || number * unit > 1e9) {
    fail(Cause::kInvalidUsage, "{}: '{}' is not a time; write a number with us, ms or s, such as 20ms", what,
         text);
  }
  return from_seconds(number * unit);
}

}  // namespace tombolo
