// What an all-reduce sends over which edge, by the algorithms of the collective engine.
#pragma once

#include <vector>

namespace tombolo::planner {

/// Bytes that one member sends to another during a phase, as a fraction of the message.
struct Transfer {
  int from = 0, to = 0;  ///< members, 0..n-1
  double fraction = 0;
};

/// Transfers that run at the same time; the next phase starts when all have ended.
struct Phase {
  std::vector<Transfer> transfers;
  int rounds = 0;  ///< messages that follow each other along an edge, each paying the latency once
};

/// `cluster[i]` tells which island member i is on. One member: nothing. All on one island, or one member per
/// island, or islands of unequal size: a ring, 2(n-1)/n of the message over each edge. Otherwise two levels:
/// reduce-scatter inside each island, all-reduce of each shard between islands, all-gather inside.
std::vector<Phase> all_reduce_phases(const std::vector<int>& cluster);

}  // namespace tombolo::planner
