#include <algorithm>
#include <cmath>
#include <numeric>

#include "bench/perf/report.h"

namespace tombolo::bench {

IterationStatistics statistics_of(std::vector<double> seconds) {
  std::sort(seconds.begin(), seconds.end());
  const std::size_t n = seconds.size();
  const auto percentile = [&](std::size_t percent) {  // nearest rank
    return seconds[std::min(n - 1, (n * percent + 99) / 100 - 1)];
  };
  IterationStatistics found{.least = seconds.front(), .most = seconds.back()};
  found.mean = std::accumulate(seconds.begin(), seconds.end(), 0.0) / static_cast<double>(n);
  found.median = seconds[n / 2];
  found.p95 = percentile(95);
  found.p99 = percentile(99);
  double squares = 0;
  for (const double one : seconds) squares += (one - found.mean) * (one - found.mean);
  found.deviation = std::sqrt(squares / static_cast<double>(n));
  return found;
}

}  // namespace tombolo::bench
