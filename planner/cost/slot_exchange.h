// What slots of one stage send each other in the middle of a pass, on several hosts or one.
#pragma once

#include <vector>

#include "planner/model/compute_profile.h"
#include "planner/plan/cluster_view.h"

namespace tombolo::planner {

/// The ranks of one pipeline slot, of a replica that exchanges something with others.
struct SlotMember {
  int rank = 0;     ///< the first of them
  int host = 0;     ///< its index
  int sharers = 1;  ///< how many they are
};

/// An exchange that all members enter together and leave together. Ranks that share a layer send an equal
/// part of their slot's bytes each.
struct SlotExchange {
  /// What the members on one host send to those on another.
  struct Crossing {
    int from_host = 0, to_host = 0;
    std::vector<int> from, to;  ///< members, by their first ranks in ascending order
    int from_ranks = 0, to_ranks = 0;
    double bytes = 0;
  };
  std::vector<Crossing> crossings;  ///< empty where all are on one host
  double inside_seconds = 0;        ///< in which members of one host send each other theirs
  /// Latency and software of one hop between hosts, or inside one: all is sent at once.
  double wait_seconds = 0;

  bool crosses() const noexcept { return !crossings.empty(); }
};

/// Every member sends every other `bytes`. `profile` says what share of their links ranks reach inside a
/// host; nothing for a group of one.
SlotExchange all_to_all(const ClusterView& view, const ComputeProfile& profile,
                        const std::vector<SlotMember>& members, double bytes);

/// Every member sends the next one `bytes`, and the last the first.
SlotExchange ring_hop(const ClusterView& view, const ComputeProfile& profile,
                      const std::vector<SlotMember>& members, double bytes);

/// The seconds that it takes where nothing else is sent: what is inside hosts beside what crosses, of which
/// each host sends its part through the NICs of its members.
double seconds_alone(const SlotExchange& exchange, const ClusterView& view, NicUse nics);

}  // namespace tombolo::planner
