// A plan and its simulation as one HTML file that needs no other file.
#pragma once

#include <string>
#include <vector>

#include "planner/explain/sensitivity.h"
#include "planner/plan/plan.h"
#include "planner/simulate/simulator.h"
#include "topology/files/cluster_file.h"

namespace tombolo::tools {

/// A changed cluster, planned anew.
struct PageScenario {
  std::string change;
  std::string problem;        ///< why there is no plan; empty where there is one
  double unchanged_step = 0;  ///< of the page's plan there; 0 = it cannot run
  double step = 0;            ///< of the new plan
};

/// What is on the page besides the plan.
struct PlanPageExtras {
  std::string comparison = {};  ///< on other plans that were tried; may be empty
  std::vector<planner::Sensitivity> sensitivities = {};
  std::vector<PageScenario> scenarios = {};
};

/// Shows predictions, the reasons for this plan, the next best, what changes of the cluster would bring,
/// stages, the timeline, memory per rank, traffic per link. `simulation` is of this plan, with spans. With
/// many ranks the timeline and the memory show only one replica of each group that is alike, and say so.
std::string plan_page(const planner::Plan& plan, const topology::ClusterFile& cluster,
                      const planner::Simulation& simulation, const PlanPageExtras& extras);

}  // namespace tombolo::tools
