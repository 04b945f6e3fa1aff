// What an all-reduce sends over which edge, by the algorithms of the collective engine (collectives/), of
// which this room must not know: tests/agreement/ holds the bytes of both equal.
#pragma once

#include <vector>

#include "planner/plan/cluster_view.h"

namespace tombolo::planner {

/// Bytes that one member sends to another, as a fraction of the message.
struct Transfer {
  int from = 0, to = 0;  ///< members, 0..n-1
  double fraction = 0;
};

struct AllReduce {
  std::vector<Transfer> transfers;  ///< at the same time: the engine overlaps its phases segment by segment
  int rounds = 0;                   ///< messages that must follow each other, each paying the latency
};

/// Where a member runs.
struct MemberLocation {
  int cluster = 0, host = 0;
};

/// A ring by cluster and host: 2(n-1)/n of the message over each edge.
AllReduce ring_all_reduce_of(const std::vector<MemberLocation>& members);

/// Two levels: a reduce-scatter and an all-gather inside each cluster (2/w between each two of its w members,
/// each way), and between clusters an exchange among the owners of each part of the message, so that with two
/// clusters each direction carries the message exactly once.
AllReduce two_level_all_reduce_of(const std::vector<MemberLocation>& members);

/// The all-reduce that the engine chooses: two levels where members are in several clusters and connections
/// are routed per peer, a ring otherwise. One member sends nothing.
///
/// Vectors of up to 16 KiB (64 KiB between two ranks) the engine reduces by recursive doubling, which is not
/// modelled: a bucket of gradients ends at the border of a layer, and a layer that small has a width of at
/// most 36. Between two ranks doubling sends the same bytes as a ring.
AllReduce all_reduce_of(const std::vector<MemberLocation>& members, Routing routing);

}  // namespace tombolo::planner
