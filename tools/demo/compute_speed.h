// How fast this machine computes the demo's model: what the planner needs besides the links.
#pragma once

#include "base/clock.h"
#include "planner/model.h"

namespace tombolo::tools::demo {

struct ComputeSpeed {
  double alone_flops_per_second = 0;   ///< one thread, the other cores at rest
  double all_flops_per_second = 0;     ///< the sum over all cores (at most one per rank) at work together
  double update_bytes_per_second = 0;  ///< of the optimizer's passes over memory, counted as the planner does

  /// Cores' worth of speed that ranks share: 2 real cores give 2, two hyper-threads of one core less.
  double effective_cores() const noexcept { return all_flops_per_second / alone_flops_per_second; }
};

/// Times the trainer's own layers at the job's shapes; takes about three times `budget`.
ComputeSpeed measure_compute_speed(const planner::Job& job, int cores, Duration budget);

}  // namespace tombolo::tools::demo
