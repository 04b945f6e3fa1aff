// --profile, which the commands that predict take: measured layer times in place of estimates.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "planner/plan/plan.h"
#include "topology/files/cluster_file.h"

namespace tombolo::tools {

/// Reads the file, and gives the devices of `cluster` on `hosts` (empty = all) the speeds that it says, for
/// what weighs devices against each other. Throws kInvalidUsage naming the file and what contradicts the
/// model or was not measured.
std::shared_ptr<const planner::Profile> load_profile(const std::string& path, const planner::Model& model,
                                                     const std::vector<std::string>& hosts,
                                                     topology::ClusterFile& cluster);

/// Adds to the plan's notes by which times it was made.
void note_profile(const std::string& path, const topology::ClusterFile& cluster, planner::Plan& plan);

/// What-if changes of a device's speed mean nothing where its times are measured. Throws kInvalidUsage.
void refuse_speeds(const std::vector<std::string>& what_if);

}  // namespace tombolo::tools
