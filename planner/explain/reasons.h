// Why a plan makes the choices that it makes: what each of them saves, by the plan without it.
#pragma once

#include <string>
#include <vector>

#include "planner/plan/plan.h"
#include "topology/files/cluster_file.h"

namespace tombolo::planner {

/// A sentence for each of tensor and sequence parallelism, recomputation, schedule and sharding that the plan
/// makes use of, and one for what it does without: what the same plan would need of memory, or take, without
/// it. Each such plan is simulated. Then by which algorithms the engine is expected to reduce gradients, as
/// the plan's prediction says, which has a step time and memory by rank besides.
std::vector<std::string> reasons_of(const Plan& plan, const topology::ClusterFile& cluster);

}  // namespace tombolo::planner
