// What an all-reduce sends over which edge, by the algorithms of the collective engine.
#pragma once

#include <vector>

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

struct MemberPlace {
  int cluster = 0, host = 0;
};

/// One member: nothing. All in one cluster: a ring in the order of hosts, 2(n-1)/n of the message over each
/// edge. Otherwise two levels: a reduce-scatter and an all-gather inside each cluster (2/w between each two
/// of its w members, each way), and between clusters an exchange among the owners of each part of the
/// message, so that with two clusters each direction carries the message exactly once.
AllReduce all_reduce_of(const std::vector<MemberPlace>& members);

}  // namespace tombolo::planner
