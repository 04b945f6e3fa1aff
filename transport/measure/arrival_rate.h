// Rates from the times at which messages arrived. Pure.
#pragma once

#include <limits>
#include <vector>

namespace tombolo::transport::measure {

/// Messages per second on a path, from the times (in seconds, ascending) at which equal messages were seen to
/// arrive. What precedes the first (latency, the burst that a token bucket lets through) does not count. A
/// reader that the scheduler holds up sees messages late and then several at once, but never early. The rate
/// is therefore the slope of the line that lies below all points (number, time) as closely as possible: the
/// edge of their lower convex hull at the mean number (Moon, Skelly, Towsley: "Estimation and removal of
/// clock skew from network delay measurements", 1999). 0 for fewer than two messages.
double arrival_rate(const std::vector<double>& seconds);

/// Equal messages that one process received.
struct Arrivals {
  double message_bytes = 0;
  std::vector<double> seconds;  ///< when each arrived, by one clock, ascending
};

/// The time in which all streams arrived at once: from when the last had begun to when the first had ended.
/// Several overlaps combine to the latest beginning, the earliest end and the longest stream.
struct Overlap {
  double from = std::numeric_limits<double>::lowest(), to = std::numeric_limits<double>::max();
  double longest = 0;  ///< duration of the longest stream; infinite where one did not arrive

  /// Whether it is at least half of the longest stream, so that rates in it are valid for all streams.
  bool is_representative() const noexcept { return to - from > longest / 2; }
};
Overlap overlap_of(const std::vector<Arrivals>& streams);

/// Bytes per second of streams that arrived at the same time. Each rate is the mean over the time in which
/// all of them arrived, so that their sum is what a line that they share carried, however they alternated; or
/// the stream's arrival_rate() in that time, where that is less: a reader that was held up at the beginning
/// read more in that time than arrived in it. Where the overlap is not representative, each stream is
/// evaluated by itself.
std::vector<double> rates_in(const std::vector<Arrivals>& streams, const Overlap& overlap);

/// rates_in() the streams' own overlap. A single stream has its arrival_rate().
std::vector<double> rates_together(const std::vector<Arrivals>& streams);

}  // namespace tombolo::transport::measure
