// The memory of a plan's ranks in figures, for those who do not see its drawing.
#pragma once

#include <string>

#include "planner/plan/plan.h"
#include "topology/files/cluster_file.h"

namespace tombolo::tools {

/// The bytes of a rank's device as the cluster file says them; 0 where it does not.
double memory_of_device(const topology::ClusterFile& cluster, const planner::RankPlacement& place);

/// A table as HTML, a row for all ranks that hold the same on devices of the same size, in the order of their
/// stages; at most 64 rows, of the fullest, and then a note says so. The plan has predicted memory of all
/// ranks.
std::string memory_table(const planner::Plan& plan, const topology::ClusterFile& cluster);

}  // namespace tombolo::tools
