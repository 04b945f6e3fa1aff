// What a better cluster would bring to a plan as it is.
#pragma once

#include <string>
#include <vector>

#include "planner/plan/plan.h"
#include "topology/files/cluster_file.h"

namespace tombolo::planner {

struct Sensitivity {
  std::string change;       ///< in words: "twice the rate between A and B"
  double step_seconds = 0;  ///< of the same plan then
};

/// The step of this plan, not planned anew, with twice the rate between two of its clusters, with half the
/// latency between them where that is a millisecond or more, and with devices of one of its clusters 1.2
/// times as fast; the most helpful first. Each is simulated.
std::vector<Sensitivity> sensitivities(const Plan& plan, const topology::ClusterFile& cluster);

}  // namespace tombolo::planner
