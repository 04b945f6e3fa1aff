// What the search may vary of a job.
#pragma once

#include <optional>

#include "planner/planner.h"

namespace tombolo::planner {

/// What a user has fixed of the choices that are otherwise the search's. Absent or 0: left open.
struct FixedChoices {
  std::optional<Recompute> recompute;
  std::optional<Sharding> sharding;
  std::optional<Schedule> schedule;
  int chunks = 0;  ///< model chunks per stage
  /// Of whole layers that are computed again: the first so many of each chunk; 0: all.
  std::optional<int> recompute_layers;
  std::optional<bool> sequence_parallel, overlap_tensor, overlap_parameters;
};

/// Opens what is not fixed, as far as the job's framework has it (model/framework.h): the ways to save memory
/// and the schedules become lists in `options`. Sequence parallelism and the gathering of sharded parameters
/// beside the forward pass are switched on in the job, for they never take more time or memory, and so are
/// sends that block where the framework knows no others. Exchanges of ranks that share layers go beside
/// products where the framework has that without compiling layers, the model has no experts, and the devices
/// suit it (PlanOptions::overlap_by_devices). Whole layers are computed again only as many as memory needs,
/// where the framework can. `memory_known` says whether any device's memory can be short; else nothing is
/// recomputed.
void open_choices(const FixedChoices& fixed, bool memory_known, Job& job, PlanOptions& options);

}  // namespace tombolo::planner
