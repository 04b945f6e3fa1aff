// How fast this machine computes the layers of the demo's model, which the planner needs besides the links.
#pragma once

#include <vector>

#include "planner/model/profile.h"
#include "topology/files/cluster_file.h"

namespace tombolo::tools::demo {

/// Measures the layers on as many ranks at once as there are cores, for about `seconds` for each micro-batch
/// (rows).
planner::Profile measure_layers(const std::vector<int>& micro_batches, double seconds);

/// The FLOP/s that a layer's forward and backward pass attain together, on one core.
double flops_per_second(const planner::Profile& profile, int micro_batch);

/// The cluster with that speed in each device, for those readers of the cluster file that do not have the
/// profile.
topology::ClusterFile with_speed(topology::ClusterFile cluster, const planner::Profile& profile,
                                 int micro_batch);

}  // namespace tombolo::tools::demo
