// What a framework wants of the environment in which each of its ranks starts, beside the network's settings.
#pragma once

#include <string>
#include <string_view>

#include "planner/plan/plan.h"
#include "topology/files/cluster_file.h"

namespace tombolo::planner {

/// The names of all variables that framework_environment() may set, with "|" between them: those that a
/// launcher has to pass on which does not pass on everything.
constexpr std::string_view kFrameworkVariables = "CUDA_DEVICE_MAX_CONNECTIONS|UB_SKIPMC";

/// Lines of sh that export the settings which `framework` wants for this plan, each with its reason in a
/// comment; empty where it wants none. A value that the environment has already stays. All launch scripts
/// take them from here.
std::string framework_environment(const Plan& plan, const topology::ClusterFile& cluster,
                                  Framework framework);

}  // namespace tombolo::planner
