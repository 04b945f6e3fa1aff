// Clusters that are a little faster or slower than the one that was described.
#pragma once

#include <string>
#include <vector>

#include "planner/plan/cluster_view.h"

namespace tombolo::planner {

struct Disturbance {
  std::string text;  ///< "links between A and B 20 % slower"
  topology::ClusterFile cluster;
};

/// The cluster with each kind of device, and the links inside each cluster and between each two, slower and
/// faster by `share`, one at a time. Only what `hosts` (indices) have and use counts. Where there are more
/// than three clusters, the links inside all of them are one case, and those between them another.
std::vector<Disturbance> disturbances(const ClusterView& view, const std::vector<int>& hosts, double share);

}  // namespace tombolo::planner
