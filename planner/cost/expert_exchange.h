// What ranks that divide a layer's experts send each other.
#pragma once

#include <vector>

#include "planner/model/compute_profile.h"
#include "planner/plan/cluster_view.h"
#include "planner/plan/plan.h"

namespace tombolo::planner {

/// The ranks of one pipeline slot, of a replica that divides experts with others.
struct ExpertMember {
  int rank = 0;     ///< the first of them
  int host = 0;     ///< its index
  int sharers = 1;  ///< how many they are
};

/// An all-to-all that brings tokens to their experts, or back. With n replicas that divide the experts of a
/// layer evenly, and a load that is balanced, each sends every other X / n of X = T k H b bytes: k copies of
/// its T tokens, less what stays. Where it is not (Job::expert_load()), the one that gets most is waited for,
/// and each exchange counts as if all got as much. Ranks that share a layer send an equal part each.
struct ExpertExchange {
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

/// The exchange for `rows` rows of each of the `members`; of a group of one it is empty. `profile` says what
/// share of their links ranks reach inside a host.
ExpertExchange expert_exchange(const Job& job, const ClusterView& view, const ComputeProfile& profile,
                               const std::vector<ExpertMember>& members, double rows);

/// The seconds that it takes where nothing else is sent: what is inside hosts beside what crosses, of which
/// each host sends its part through the NICs of its members.
double seconds_alone(const ExpertExchange& exchange, const ClusterView& view, NicUse nics);

/// How many such exchanges a pass of a layer makes: to the experts and back, and backward the same for the
/// gradients, after those of the forward pass where that is computed again.
int expert_exchanges(Recompute recompute, bool forward) noexcept;

}  // namespace tombolo::planner
