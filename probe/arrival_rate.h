#pragma once

#include <limits>
#include <vector>

namespace tombolo::probe {

/// Messages per second on a path, from the times (in seconds, ascending) at which equal messages were seen to
/// arrive. What precedes the first (latency, a token bucket's gift) does not count. A reader that the
/// scheduler holds up sees messages late and then several at once, never early: the rate is the slope of the
/// line that lies under all points (number, time) as closely as possible, the edge of their lower convex hull
/// below the mean number (Moon, Skelly, Towsley: "Estimation and removal of clock skew from network delay
/// measurements", 1999). 0 for fewer than two messages.
double arrival_rate(const std::vector<double>& seconds);

/// Equal messages that one process received.
struct Arrivals {
  double message_bytes = 0;
  std::vector<double> seconds;  ///< of one clock, ascending
};

/// The time in which streams came at once: from when the last had begun to when the first had ended. That of
/// several overlaps has the latest beginning, the earliest end and the longest stream of them.
struct Overlap {
  double from = std::numeric_limits<double>::lowest(), to = std::numeric_limits<double>::max();
  double longest = 0;  ///< of the streams; infinite where one did not come

  /// Whether it is half of the longest stream at least, so that it tells something of all.
  bool tells() const noexcept { return to - from > longest / 2; }
};
Overlap overlap_of(const std::vector<Arrivals>& streams);

/// Bytes per second of streams that came at the same time, each as the mean of the time in which all of them
/// came, so that their sum is what a line that they share carried, however they took turns. Or their
/// arrival_rate() in that time, where it is less: a reader that was held up when it began had more to read in
/// it than came. Where the overlap does not tell, each by itself.
std::vector<double> rates_in(const std::vector<Arrivals>& streams, const Overlap& overlap);

/// In their own overlap; of a single stream its arrival_rate().
std::vector<double> rates_together(const std::vector<Arrivals>& streams);

}  // namespace tombolo::probe
