#include "base/units.h"

#include <array>
#include <cctype>
#include <charconv>
#include <cmath>
#include <limits>

#include "base/error.h"

namespace tombolo {

std::uint64_t parse_size(std::string_view text, std::string_view what) {
  std::uint64_t value = 0;
  const char* end = text.data() + text.size();
  auto [rest, status] = std::from_chars(text.data(), end, value);
  auto reject = [&] {
    fail(Cause::kInvalidUsage, "{}: '{}' is not a size; write bytes, or a number with K, M or G, such as 64K",
         what, text);
  };
  if (status != std::errc{}) reject();
  std::string suffix;
  for (; rest != end; ++rest) suffix += static_cast<char>(std::toupper(static_cast<unsigned char>(*rest)));
  std::uint64_t unit = 1;
  if (!suffix.empty() && suffix != "B") {
    switch (suffix[0]) {
      case 'K':
        unit = kKiB;
        break;
      case 'M':
        unit = kMiB;
        break;
      case 'G':
        unit = kGiB;
        break;
      default:
        reject();
    }
    std::string tail = suffix.substr(1);
    if (!tail.empty() && tail != "B" && tail != "IB") reject();
  }
  if (value > std::numeric_limits<std::uint64_t>::max() / unit) reject();
  return value * unit;
}

std::string format_size(std::uint64_t bytes) {
  struct Unit {
    std::uint64_t bytes;
    const char* name;
  };
  static constexpr std::array<Unit, 3> kUnits{{{kGiB, "GiB"}, {kMiB, "MiB"}, {kKiB, "KiB"}}};
  for (const auto& unit : kUnits) {
    if (bytes < unit.bytes) continue;
    if (bytes % unit.bytes == 0) return fmt::format("{} {}", bytes / unit.bytes, unit.name);
    return fmt::format("{:.2f} {}", static_cast<double>(bytes) / static_cast<double>(unit.bytes), unit.name);
  }
  return fmt::format("{} B", bytes);
}

std::string format_bit_rate(double bytes_per_second) {
  double bits = bytes_per_second * 8;
  if (bits >= 1e9) return fmt::format("{:.3g} Gbit/s", bits / 1e9);
  if (bits >= 1e6) return fmt::format("{:.3g} Mbit/s", bits / 1e6);
  return fmt::format("{:.3g} kbit/s", bits / 1e3);
}

std::string format_seconds(double seconds) {
  double magnitude = std::fabs(seconds);
  if (magnitude < 1e-3) return fmt::format("{:.3g} us", seconds * 1e6);
  if (magnitude < 1) return fmt::format("{:.3g} ms", seconds * 1e3);
  return fmt::format("{:.3g} s", seconds);
}

}  // namespace tombolo
