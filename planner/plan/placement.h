// Which rank takes which stage and replica of a grid.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "planner/plan/cluster_view.h"
#include "planner/plan/plan.h"

namespace tombolo::planner {

/// Where a launcher rank runs; rank r is entry r of a list of these.
struct LauncherSlot {
  int host = 0;  ///< index in the cluster file
  int device = 0;
};

struct Placement {
  std::vector<RankPlacement> ranks;  ///< by launcher rank
  /// Consecutive stages on one cluster: how many, on which, and their speed together (FLOP/s).
  struct Span {
    std::string cluster;
    int stages = 0;
    double speed = 0;
  };
  std::vector<Span> spans;
  /// Every stage's ranks are in one cluster, or in clusters that reach each other by the kind they use
  /// inside.
  bool groups_inside_kinds = true;
  /// Ranks that share layers share a host.
  bool tensor_inside_hosts = true;
};

/// Launcher order from host names: the k-th mention of a host is its k-th device. Empty = every device, in
/// the cluster file's order. Throws kInvalidUsage on an unknown host or one mentioned more often than it has
/// devices.
std::vector<LauncherSlot> launcher_slots(const ClusterView& view, const std::vector<std::string>& rank_hosts);

/// How many stages, replicas, and ranks that share each layer.
struct Grid {
  int pipeline = 1, data = 1, tensor = 1;
};

/// Megatron's default order (tp-cp-ep-dp-pp): rank r is stage r / (data x tensor), replica r / tensor % data,
/// and of that replica's ranks number r % tensor.
Placement place_in_launcher_order(const ClusterView& view, const std::vector<LauncherSlot>& slots,
                                  const Grid& grid);

/// Placement by the same rule, where `order[i]` is the launcher rank that takes what the rule gives rank i.
/// `view` must be of per-peer routing: kinds decide.
Placement place_in_order(const ClusterView& view, const std::vector<LauncherSlot>& slots,
                         const std::vector<std::size_t>& order, const Grid& grid);
/// 0, 1, ... ranks - 1.
std::vector<std::size_t> launcher_order(std::size_t ranks);

/// The NIC kind of each cluster with ranks, by the cluster's name: the slowest NIC kind between any two of
/// its hosts; of one host, its best NIC's.
std::map<std::string, topology::NicKind> cluster_kinds(const ClusterView& view,
                                                       const std::vector<LauncherSlot>& slots);

/// The communicating groups of a plan with the kind that each uses; `view` is of the plan's routing.
std::vector<Group> groups_of(const Plan& plan, const ClusterView& view);

}  // namespace tombolo::planner
