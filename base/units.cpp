#include "base/units.h"

#include <array>
#include <cctype>
#include <charconv>
#include <cmath>
#include <limits>
#include <utility>

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

double parse_bit_rate(std::string_view text, std::string_view what) {
  double number = 0;
  auto [rest, status] = std::from_chars(text.data(), text.data() + text.size(), number);
  std::string suffix;
  for (const char* at = rest; at != text.data() + text.size(); ++at) {
    suffix += static_cast<char>(std::tolower(static_cast<unsigned char>(*at)));
  }
  double unit = 1;
  if (!suffix.empty() && std::string_view("kmgt").find(suffix[0]) != std::string_view::npos) {
    unit = suffix[0] == 'k' ? 1e3 : suffix[0] == 'm' ? 1e6 : suffix[0] == 'g' ? 1e9 : 1e12;
    suffix.erase(0, 1);
  }
  bool known = suffix.empty() || suffix == "bit" || suffix == "bit/s";
  if (status != std::errc{} || !known || !(number > 0) || number * unit > 1e15) {
    fail(Cause::kInvalidUsage, "{}: '{}' is not a rate; write bits per second such as 100mbit or 2.5gbit",
         what, text);
  }
  return number * unit;
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

std::string format_flops(double flops_per_second) {
  for (const auto& [unit, name] : {std::pair(1e15, "PFLOP/s"), {1e12, "TFLOP/s"}})
    if (flops_per_second >= unit) return fmt::format("{:.3g} {}", flops_per_second / unit, name);
  return fmt::format("{:.3g} GFLOP/s", flops_per_second / 1e9);
}

std::string counted(std::int64_t number, std::string_view noun) {
  return fmt::format("{} {}{}", number, noun, number == 1 ? "" : "s");
}

}  // namespace tombolo
