// A plan and its simulation as one HTML file that needs no other file.
#pragma once

#include <string>

#include "planner/plan/plan.h"
#include "planner/simulate/simulator.h"
#include "topology/files/cluster_file.h"

namespace tombolo::tools {

/// Shows predictions, the reasons for this plan, stages, the timeline, memory per rank, traffic per link.
/// `simulation` is of this plan, with spans. With many ranks the timeline and the memory show only the first
/// replica, and say so. `comparison` is a text on other plans that were tried; may be empty.
std::string plan_page(const planner::Plan& plan, const topology::ClusterFile& cluster,
                      const planner::Simulation& simulation, const std::string& comparison);

}  // namespace tombolo::tools
