// Joins a profile and a cluster: every device must have been measured, and strategies compare devices by the
// profile's speeds instead of the cluster file's.
#pragma once

#include <string>
#include <vector>

#include "planner/model/profile.h"
#include "topology/files/cluster_file.h"

namespace tombolo::planner {

/// The cluster with each measured device's FLOP/s according to the profile: the model's FLOPs
/// (Model::layer_forward_flops, and twice that backward) divided by their measured seconds at the largest
/// micro-batch. `hosts` are those that take part (by name; empty = all). Throws kInvalidUsage where the
/// profile contradicts the model, or lacks a kind of layer on a device that takes part, naming what was
/// measured.
topology::ClusterFile profiled_cluster(const Profile& profile, const Model& model,
                                       topology::ClusterFile cluster, const std::vector<std::string>& hosts);

/// A note for plans by this profile whose micro-batches are larger than any that was measured on a device of
/// `hosts`; empty where there are none.
std::string extrapolation_note(const Profile& profile, const topology::ClusterFile& cluster,
                               const std::vector<std::string>& hosts, int micro_batch);

}  // namespace tombolo::planner
