// What an all-reduce sends over which edge. The algorithms are those of the collective engine (collectives/),
// which this room must not include; tests/agreement/ checks that both send the same bytes.
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
  /// all at the same time: the engine overlaps its phases segment by segment
  std::vector<Transfer> transfers;
  bool ring = false;  ///< inside a cluster each member sends to the next alone
  int rounds = 0;     ///< messages that must follow each other, each of which adds the latency
};

/// Where a member runs.
struct MemberLocation {
  int cluster = 0, host = 0;
};

/// A ring ordered by cluster and host, which sends 2(n-1)/n of the message over each edge.
AllReduce ring_all_reduce_of(const std::vector<MemberLocation>& members);

/// Two levels: a reduce-scatter and an all-gather inside each cluster, and between clusters an exchange among
/// the owners of each part of the message, so that with two clusters each direction between them carries the
/// message exactly once; of k clusters each sends 2/k of it to each other one, with equal shares, as the
/// engine has them where nobody measured the links. Inside a cluster whose hosts have p members each, these
/// exchange among themselves first (2/p between each two of a host, each way), then those in one place on
/// each host (2/w of the cluster's w members); where hosts have unlike numbers, all members at once (2/w
/// between each two).
AllReduce two_level_all_reduce_of(const std::vector<MemberLocation>& members);

/// The same by rings inside and between clusters, as NCCL's channels go: each member sends as much, but a
/// host's members only to the next host. A ring's hops inside a cluster count as two rounds, too: what they
/// take is short of what it takes to cross.
AllReduce ringed_two_level_all_reduce_of(const std::vector<MemberLocation>& members);

/// The all-reduce that the engine chooses by its rules: two levels where members are in several clusters and
/// connections are routed per peer, a ring otherwise. One member sends nothing. Where the engine knows rates
/// and latencies between the hosts, its cost model may take another, and three and more clusters share by
/// their rates; what it takes then depends on a measurement that a plan does not have.
///
/// Vectors of up to 16 KiB (64 KiB between two ranks; 16 KiB divided by the ranks of the largest cluster
/// where there are several) are reduced by the engine with recursive doubling, which is not modelled: a
/// bucket of gradients ends at the border of a layer, and a layer that small has a width of at most 36.
/// Between two ranks doubling sends the same bytes as a ring.
AllReduce all_reduce_of(const std::vector<MemberLocation>& members, Routing routing);

/// That of software which uses NICs in this way: the engine's, or with NCCL (kNearest) the same by rings.
AllReduce all_reduce_of(const std::vector<MemberLocation>& members, Routing routing, NicUse nics);

}  // namespace tombolo::planner
