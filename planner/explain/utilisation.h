// How much of its devices' speed a plan uses.
#pragma once

#include "planner/plan/plan.h"
#include "topology/files/cluster_file.h"

namespace tombolo::planner {

struct Utilisation {
  double flops_per_second = 0;  ///< of the model, per rank; recomputation does not count
  double of_peak = 0;           ///< MFU, of the ranks' peaks together; 0 where some device's is not known
};

/// The model's FLOPs of one step over `step_seconds` and the ranks: three times those of the forward pass,
/// with attention's products counted whole although causal ones need half, as Megatron-LM counts. Peaks are
/// those of the library of devices, in the precision in which the job multiplies.
Utilisation utilisation_of(const Plan& plan, const topology::ClusterFile& cluster, double step_seconds);

}  // namespace tombolo::planner
