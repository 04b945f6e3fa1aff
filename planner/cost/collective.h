// The seconds of a collective among ranks that wait for each other.
#pragma once

namespace tombolo::planner {

enum class Collective {
  kAllReduce,
  kReduceScatter,
  kAllGather,
};

/// What the slowest of a group's links costs, and how many share the work.
struct CollectiveLink {
  int ranks = 1;
  double seconds_per_byte = 0;
  double hop_seconds = 0;  ///< from one rank to the next, whatever the size
};

/// Seconds by the alpha-beta model of a ring: with n ranks a reduce-scatter or an all-gather of `bytes` in
/// all is n - 1 hops of bytes / n each, an all-reduce is both. 0 for one rank.
double collective_seconds(Collective collective, double bytes, const CollectiveLink& link) noexcept;

}  // namespace tombolo::planner
