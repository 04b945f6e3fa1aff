// Which rank takes which stage and replica, by strategy.
#pragma once

#include <string>
#include <vector>

#include "planner/plan/cluster_view.h"
#include "planner/plan/plan.h"

namespace tombolo::planner {

/// Where launcher rank r runs (index r).
struct Slot {
  int host = 0;  ///< index in the cluster file
  int device = 0;
};

struct Placement {
  std::vector<RankPlace> ranks;  ///< by launcher rank
  /// Consecutive stages on one island: how many, on which, and their speed together (FLOP/s).
  struct Span {
    std::string cluster;
    int stages = 0;
    double speed = 0;
  };
  std::vector<Span> spans;
  /// Every stage's ranks are on one island, or on islands that reach each other by the kind they use inside.
  bool groups_inside_kinds = true;
  /// Ranks that share layers share a host.
  bool tensor_inside_hosts = true;
};

/// Launcher order from host names: the k-th mention of a host is its k-th device. Empty = every device, in
/// the cluster file's order. Throws kInvalidUsage on an unknown host or one mentioned more often than it has
/// devices.
std::vector<Slot> launcher_slots(const ClusterView& view, const std::vector<std::string>& rank_hosts);

/// The size of a grid of places.
struct Grid {
  int pipeline = 1, data = 1, tensor = 1;
};

/// Megatron's default order (tp-cp-ep-dp-pp): rank r is stage r / (data x tensor), replica r / tensor % data,
/// and of that replica's ranks number r % tensor.
Placement place_in_launcher_order(const ClusterView& view, const std::vector<Slot>& slots, const Grid& grid);

/// Holmes: ranks sorted by (NIC kind inside their island, island, rank) before that same rule, so that
/// islands fill whole stages wherever data x tensor divides their size. `view` must be of per-peer routing:
/// kinds decide.
Placement place_by_nic_kind(const ClusterView& view, const std::vector<Slot>& slots, const Grid& grid);

/// The slowest NIC kind between any two hosts of an island; of one host, its best NIC's.
topology::NicKind island_kind(const ClusterView& view, const std::vector<Slot>& slots,
                              const std::string& cluster);

/// The communicating groups of a plan with the kind that each uses; `view` is of the plan's routing.
std::vector<Group> groups_of(const Plan& plan, const ClusterView& view);

}  // namespace tombolo::planner
