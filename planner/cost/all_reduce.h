// What an all-reduce sends over which edge: with NCCL by the rules below, by the collective engine as its own
// schedules say (engine_reduction.h).
#pragma once

#include <vector>

#include "planner/plan/cluster_view.h"

namespace tombolo::planner {

/// The bytes that one member sends to another, as a fraction of the message.
struct Transfer {
  int from = 0, to = 0;  ///< members, 0..n-1
  double fraction = 0;
};

struct AllReduce {
  /// all at the same time: phases overlap piece by piece
  std::vector<Transfer> transfers;
  bool ring = false;  ///< inside a cluster each member sends to the next alone
  int rounds = 0;     ///< messages that must follow each other after that, each of which adds the latency
  double least_seconds = 0;  ///< it is not over sooner, however free the links are
};

/// Where a member runs.
struct MemberLocation {
  int cluster = 0, host = 0;
};

/// A ring ordered by cluster and host, which sends 2(n-1)/n of the message over each edge.
AllReduce ring_all_reduce_of(const std::vector<MemberLocation>& members);

/// Two levels, by rings inside and between clusters, as NCCL's channels go: a reduce-scatter and an
/// all-gather inside each cluster, and between clusters an exchange among the owners of each part of the
/// message, so that with two clusters each direction between them carries the message exactly once. A ring's
/// hops inside a cluster count as two rounds: what they take is short of what it takes to cross.
AllReduce two_level_all_reduce_of(const std::vector<MemberLocation>& members);

/// By two levels where members are in several clusters and connections are routed per peer, a ring otherwise.
/// One member sends nothing.
AllReduce all_reduce_of(const std::vector<MemberLocation>& members, Routing routing);

}  // namespace tombolo::planner
