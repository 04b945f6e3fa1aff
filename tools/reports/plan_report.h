// Plans and their simulations as text.
#pragma once

#include <string>

#include "planner/plan/plan.h"
#include "planner/simulate/simulator.h"
#include "topology/files/cluster_file.h"

namespace tombolo::tools {

/// Describes stages, predictions, memory, traffic per link, and the reasons. `simulation` is of this plan.
std::string describe_plan(const planner::Plan& plan, const topology::ClusterFile& cluster,
                          const planner::Simulation& simulation);

/// Describes step time, bubble, utilisation by rank, timeline, traffic per link.
std::string describe_simulation(const planner::Plan& plan, const topology::ClusterFile& cluster,
                                const planner::Simulation& simulation);

/// One line per rank, `columns` characters wide: F forward, B backward, O optimizer, x tokens on
/// their way to experts and back, r waiting while gradients are reduced, . idle.
std::string timeline_text(const planner::Plan& plan, const planner::Simulation& simulation,
                          std::size_t columns);

}  // namespace tombolo::tools
