// How many layers are computed again where only as many are as memory needs.
#pragma once

#include "planner/plan/cluster_view.h"
#include "planner/plan/plan.h"

namespace tombolo::planner {

/// Where whole layers are computed again (Recompute::kFull) and the job leaves open how many
/// (Job::kAsNeeded): sets the least number, the same of each model chunk, with which every rank of the plan
/// fits in memory; all, where fewer do not suffice, where replicas divide experts or rows' tokens, whose
/// exchanges are only counted for all layers alike, and where a number that is fixed is that of all. Where
/// nothing is computed again the number is no longer open either.
void settle_layers_again(Plan& plan, const ClusterView& view);

}  // namespace tombolo::planner
