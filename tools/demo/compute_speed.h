// How fast this machine computes the demo's model: what the planner needs besides the links.
#pragma once

#include <vector>

#include "planner/job.h"
#include "topology/cluster_file.h"

namespace tombolo::tools::demo {

struct ComputeSpeed {
  double alone_flops_per_second = 0;   ///< one rank's stage, the others at rest
  double all_flops_per_second = 0;     ///< the sum over all ranks at work together
  double update_bytes_per_second = 0;  ///< of the optimizer's passes over memory, counted as the planner does

  /// Cores' worth of speed that the ranks share: two real cores give about 2, two hyper-threads of one less.
  double effective_cores() const noexcept { return all_flops_per_second / alone_flops_per_second; }
};

/// Times the trainer's own stages at the job's shapes, first one alone and then one per rank at once; takes
/// about two seconds.
ComputeSpeed measure_compute_speed(const planner::Job& job);

/// Of each figure the median.
ComputeSpeed median_of(const std::vector<ComputeSpeed>& speeds);

/// The cluster with that speed in each device, all of which share this machine's processor.
topology::ClusterFile with_speed(topology::ClusterFile cluster, const ComputeSpeed& speed);

}  // namespace tombolo::tools::demo
