// A profile meets a cluster: every device must have been measured, and what strategies weigh devices by is
// what the profile says, not the cluster file.
#pragma once

#include <string>
#include <vector>

#include "planner/model/profile.h"
#include "topology/files/cluster_file.h"

namespace tombolo::planner {

/// The cluster with each measured device's FLOP/s as the profile has it: the model's layers, counted as
/// Model::layer_forward_flops and twice that backward, over their measured seconds at the largest
/// micro-batch. `hosts`: those that take part (by name; empty = all). Throws kInvalidUsage where the profile
/// contradicts the model, or lacks a kind of layer on a device that takes part, naming what was measured.
topology::ClusterFile profiled_cluster(const Profile& profile, const Model& model,
                                       topology::ClusterFile cluster, const std::vector<std::string>& hosts);

/// What to know of a plan by this profile: that its micro-batches are larger than any that was measured on a
/// device of `hosts`; empty where all is well.
std::string extrapolation_note(const Profile& profile, const topology::ClusterFile& cluster,
                               const std::vector<std::string>& hosts, int micro_batch);

}  // namespace tombolo::planner
