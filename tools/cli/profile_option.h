// --profile, an option of the commands that predict: measured layer times in place of estimates.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "planner/plan/plan.h"
#include "topology/files/cluster_file.h"

namespace tombolo::tools {

/// Reads the file, and sets the speeds of the devices of `cluster` on `hosts` (empty = all) to those that it
/// states, for the parts of planning that compare devices with each other. Throws kInvalidUsage naming the
/// file and what contradicts the model or was not measured.
std::shared_ptr<const planner::Profile> load_profile(const std::string& path, const planner::Model& model,
                                                     const std::vector<std::string>& hosts,
                                                     topology::ClusterFile& cluster);

/// Adds a note to the plan that says from which times it was made.
void note_profile(const std::string& path, const topology::ClusterFile& cluster, planner::Plan& plan);

/// Throws kInvalidUsage where a what-if changes the speed of a device, because with measured times that would
/// have no effect.
void refuse_speeds(const std::vector<std::string>& what_if);

}  // namespace tombolo::tools
