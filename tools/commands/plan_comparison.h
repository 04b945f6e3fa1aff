// What other searches would give, for `tombolo plan`.
#pragma once

#include <string>

#include "planner/choices.h"

namespace tombolo::tools {

/// Whether the cluster file says of any device how much memory it has.
bool states_memory(const topology::ClusterFile& cluster);

/// One line that compares the plan, which takes so long per step, with that of another strategy under the
/// same routing.
std::string comparison(const topology::ClusterFile& cluster, const planner::Job& job,
                       planner::PlanOptions options, double step_seconds);

/// One line that says what the framework's limits cost; empty where they cost nothing. `job` and `options`
/// are those of the plan; the bundled trainer's memory and speed are not those of another framework, so that
/// nothing is said of it.
std::string freer_gain(const topology::ClusterFile& cluster, planner::Job job, planner::PlanOptions options,
                       const planner::FixedChoices& fixed, const planner::Plan& plan);

}  // namespace tombolo::tools
