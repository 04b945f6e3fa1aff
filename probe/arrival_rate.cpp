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

}  // namespace tombolo::probe
