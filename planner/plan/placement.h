// Decides which rank takes which stage and replica of a grid.
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

/// The slots among which a framework's plans can be searched. Where it numbers a node's ranks in a row, they
/// are next to each other, hosts in the order of their first. Where all nodes must have equally many, there
/// is one list for each number of devices that some host has, with as many of every host that has enough;
/// else one list with all.
std::vector<std::vector<LauncherSlot>> startable_slots(const std::vector<LauncherSlot>& slots,
                                                       const FrameworkTraits& can);

struct Placement {
  std::vector<RankPlacement> ranks;  ///< by launcher rank
  /// Consecutive stages on one cluster: how many, on which, and their speed together (FLOP/s).
  struct Span {
    std::string cluster;
    int stages = 0;
    double speed = 0;
  };
  std::vector<Span> spans;
  /// Whether each stage's ranks are in one cluster, or in clusters that reach each other by the kind of NIC
  /// that they use inside.
  bool groups_inside_kinds = true;
  /// Whether ranks that share layers share a host.
  bool tensor_inside_hosts = true;
};

/// Derives the launcher order from host names: the k-th mention of a host is its k-th device. An empty list
/// means every device, in the cluster file's order. Throws kInvalidUsage on an unknown host, or one mentioned
/// more often than it has devices.
std::vector<LauncherSlot> launcher_slots(const ClusterView& view, const std::vector<std::string>& rank_hosts);

/// How many stages, replicas, and ranks that share each layer.
struct Grid {
  int pipeline = 1, data = 1, tensor = 1;
};

/// Places ranks in Megatron's default order (tp-cp-ep-dp-pp): rank r takes stage r / (data x tensor) and
/// replica r / tensor % data, with tensor index r % tensor.
Placement place_in_launcher_order(const ClusterView& view, const std::vector<LauncherSlot>& slots,
                                  const Grid& grid);

/// Places ranks by the same rule in another order: launcher rank `order[i]` takes the position that the rule
/// gives to rank i. `view` must be of per-peer routing, because NIC kinds decide.
Placement place_in_order(const ClusterView& view, const std::vector<LauncherSlot>& slots,
                         const std::vector<std::size_t>& order, const Grid& grid);
/// The order 0, 1, ... ranks - 1.
std::vector<std::size_t> launcher_order(std::size_t ranks);

/// The NIC kind of each cluster with ranks, by the cluster's name: the slowest NIC kind between any two of
/// its hosts; for a single host, that of its best NIC.
std::map<std::string, topology::NicKind> cluster_kinds(const ClusterView& view,
                                                       const std::vector<LauncherSlot>& slots);

/// The communicating groups of a plan, with the kind of NIC that each uses; `view` is of the plan's routing.
std::vector<Group> groups_of(const Plan& plan, const ClusterView& view);

}  // namespace tombolo::planner
