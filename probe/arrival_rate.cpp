#include "probe/arrival_rate.h"

#include <algorithm>
#include <cstddef>

namespace tombolo::probe {

double arrival_rate(const std::vector<double>& seconds) {
  if (seconds.size() < 2) return 0;
  const auto slope = [&](std::size_t from, std::size_t to) {
    return (seconds[to] - seconds[from]) / static_cast<double>(to - from);
  };
  std::vector<std::size_t> hull;
  for (std::size_t i = 0; i < seconds.size(); ++i) {
    while (hull.size() > 1 && slope(hull[hull.size() - 2], hull.back()) >= slope(hull.back(), i))
      hull.pop_back();
    hull.push_back(i);
  }
  const std::size_t middle = (seconds.size() - 1) / 2;
  const auto after = std::upper_bound(hull.begin(), hull.end(), middle);
  return 1 / std::max(slope(*(after - 1), *after), 1e-12);
}

namespace {

/// How many had come by then, between two arrivals in proportion.
double count_by(const std::vector<double>& seconds, double when) {
  const auto after = std::ranges::upper_bound(seconds, when);
  if (after == seconds.begin()) return 0;
  const double before = *(after - 1), count = static_cast<double>(after - seconds.begin()) - 1;
  return after == seconds.end() ? count : count + (when - before) / (*after - before);
}

}  // namespace

std::vector<double> rates_together(const std::vector<Arrivals>& streams) {
  std::vector<double> rates;
  for (const Arrivals& stream : streams) rates.push_back(stream.message_bytes * arrival_rate(stream.seconds));
  const bool all_came =
      std::ranges::all_of(streams, [](const Arrivals& stream) { return stream.seconds.size() > 1; });
  if (streams.size() < 2 || !all_came) return rates;
  double from = streams.front().seconds.front(), to = streams.front().seconds.back();
  double longest = 0;
  for (const Arrivals& stream : streams) {
    from = std::max(from, stream.seconds.front());
    to = std::min(to, stream.seconds.back());
    longest = std::max(longest, stream.seconds.back() - stream.seconds.front());
  }
  if (to - from <= longest / 2) return rates;
  for (std::size_t at = 0; at < streams.size(); ++at) {
    const auto& [bytes, seconds] = streams[at];
    const double mean = (count_by(seconds, to) - count_by(seconds, from)) / (to - from);
    const auto first = std::ranges::lower_bound(seconds, from), last = std::ranges::upper_bound(seconds, to);
    rates[at] = bytes * std::min(mean, arrival_rate({first, last}));
  }
  return rates;
}

}  // namespace tombolo::probe
