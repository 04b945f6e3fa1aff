#pragma once

#include <vector>

namespace tombolo::probe {

/// Messages per second on a path, from the times (in seconds, ascending) at which equal messages were seen to
/// arrive. What precedes the first (latency, a token bucket's gift) does not count. A reader that the
/// scheduler holds up sees messages late and then several at once, never early: the rate is the slope of the
/// line that lies under all points (number, time) as closely as possible, the edge of their lower convex hull
/// below the mean number (Moon, Skelly, Towsley: "Estimation and removal of clock skew from network delay
/// measurements", 1999). 0 for fewer than two messages.
double arrival_rate(const std::vector<double>& seconds);

}  // namespace tombolo::probe
