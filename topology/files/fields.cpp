#include "topology/files/fields.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>

#include "base/text_distance.h"

namespace tombolo::topology {
namespace {

constexpr double kMaximumGbps = 1e6;  // a petabit per second; keeps bit/s exact in 64 bits
constexpr double kMaximumBytesPerSecond = kMaximumGbps * 1e9 / 8;
constexpr double kMaximumLatency = 3600;  // seconds
// The limit is a hundred times what any device has today.
constexpr double kMaximumFlops = 1e18;
constexpr double kMaximumMemory = 1e15;
constexpr double kMaximumMemorySpeed = 1e15;

double bounded(const JsonCursor& cursor, double high, const char* unit) {
  const double value = cursor.positive_number();
  if (value > high) cursor.reject(fmt::format("expected at most {} {}, found {}", high, unit, value));
  return value;
}

}  // namespace

std::string name_of(const JsonCursor& cursor, bool slash_allowed) {
  std::string name = cursor.text();
  bool plain = !name.empty() && name.size() <= 255 && std::all_of(name.begin(), name.end(), [&](char c) {
    return static_cast<unsigned char>(c) > ' ' && c != '\x7f' && (slash_allowed || c != '/');
  });
  if (!plain) {
    cursor.reject(fmt::format("expected a name without blanks{}, found \"{}\"",
                              slash_allowed ? "" : " and without '/'", name.substr(0, 40)));
  }
  return name;
}

double bandwidth_of(const JsonCursor& cursor) {
  return bounded(cursor, kMaximumBytesPerSecond, "bytes per second");
}

double flops_of(const JsonCursor& cursor) {
  return bounded(cursor, kMaximumFlops, "FLOP/s");
}

double memory_of(const JsonCursor& cursor) {
  return bounded(cursor, kMaximumMemory, "bytes");
}

double memory_speed_of(const JsonCursor& cursor) {
  return bounded(cursor, kMaximumMemorySpeed, "bytes per second");
}

double latency_of(const JsonCursor& cursor) {
  const double value = cursor.number_at_least(0);
  if (value > kMaximumLatency)
    cursor.reject(fmt::format("expected at most {} seconds, found {}", kMaximumLatency, value));
  return value;
}

std::uint64_t rate_of(const JsonCursor& cursor) {
  const double gbps = cursor.positive_number();
  if (gbps > kMaximumGbps)
    cursor.reject(fmt::format("expected at most {} Gbit/s, found {}", kMaximumGbps, gbps));
  return static_cast<std::uint64_t>(std::llround(gbps * 1e9));
}

NicKind kind_of(const JsonCursor& cursor) {
  constexpr NicKind kKinds[] = {NicKind::kInfiniBand, NicKind::kRoce, NicKind::kIwarp, NicKind::kTcp};
  return kKinds[cursor.choice({"infiniband", "roce", "iwarp", "tcp"})];
}

std::string suggestion(std::string_view name, const std::vector<std::string_view>& known) {
  if (auto nearest = nearest_name(name, known)) return fmt::format("; did you mean \"{}\"?", *nearest);
  if (std::ranges::all_of(known, [](std::string_view one) { return one.empty(); }))
    return "; none has a name";
  constexpr std::size_t kShown = 16;
  std::string list = fmt::format(
      "{}", fmt::join(known.begin(),
                      known.begin() + static_cast<std::ptrdiff_t>(std::min(known.size(), kShown)), ", "));
  return fmt::format("; known: {}{}", list, known.size() > kShown ? ", ..." : "");
}

}  // namespace tombolo::topology
