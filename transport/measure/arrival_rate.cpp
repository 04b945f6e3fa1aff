#include "transport/measure/arrival_rate.h"

#include <algorithm>
#include <cstddef>

namespace tombolo::transport::measure {

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

/// How many messages had arrived by the time `when`; interpolates between two arrivals.
double count_by(const std::vector<double>& seconds, double when) {
  const auto after = std::ranges::upper_bound(seconds, when);
  if (after == seconds.begin()) return 0;
  const double before = *(after - 1), count = static_cast<double>(after - seconds.begin()) - 1;
  return after == seconds.end() ? count : count + (when - before) / (*after - before);
}

std::vector<double> own_rates(const std::vector<Arrivals>& streams) {
  std::vector<double> rates;
  for (const Arrivals& stream : streams) rates.push_back(stream.message_bytes * arrival_rate(stream.seconds));
  return rates;
}

}  // namespace

Overlap overlap_of(const std::vector<Arrivals>& streams) {
  Overlap overlap;
  for (const auto& [bytes, seconds] : streams) {
    if (seconds.size() < 2) {
      overlap.longest = std::numeric_limits<double>::infinity();
      continue;
    }
    overlap.from = std::max(overlap.from, seconds.front());
    overlap.to = std::min(overlap.to, seconds.back());
    overlap.longest = std::max(overlap.longest, seconds.back() - seconds.front());
  }
  return overlap;
}

std::vector<double> rates_in(const std::vector<Arrivals>& streams, const Overlap& overlap) {
  std::vector<double> rates = own_rates(streams);
  if (!overlap.is_representative()) return rates;
  const auto& [from, to, longest] = overlap;
  for (std::size_t at = 0; at < streams.size(); ++at) {
    const auto& [bytes, seconds] = streams[at];
    const double mean = (count_by(seconds, to) - count_by(seconds, from)) / (to - from);
    const auto first = std::ranges::lower_bound(seconds, from), last = std::ranges::upper_bound(seconds, to);
    rates[at] = bytes * std::min(mean, arrival_rate({first, last}));
  }
  return rates;
}

std::vector<double> rates_together(const std::vector<Arrivals>& streams) {
  return streams.size() < 2 ? own_rates(streams) : rates_in(streams, overlap_of(streams));
}

}  // namespace tombolo::transport::measure
