// What `tombolo plan` says of other plans than the one that it found.
#pragma once

#include <string>

#include "planner/choices.h"
#include "planner/planner.h"

namespace tombolo::tools {

/// One line that compares the plan with that of another strategy under the same routing. `options` are those
/// of the plan.
std::string comparison(const topology::ClusterFile& cluster, const planner::Job& job,
                       planner::PlanOptions options, double step_seconds);

/// One line that says what the framework's limits cost; empty where they cost nothing. `job` and `options`
/// are those of the plan, `states_memory` is whether any device of the cluster file does; the bundled
/// trainer's memory and speed are not those of another framework, so that nothing is said of it.
std::string freer_gain(const topology::ClusterFile& cluster, bool states_memory, planner::Job job,
                       planner::PlanOptions options, const planner::FixedChoices& fixed,
                       const planner::Plan& plan);

}  // namespace tombolo::tools
