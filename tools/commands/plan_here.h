// `tombolo plan --here`: measures the job that a launcher started, and plans for it.
#pragma once

#include "tools/commands/plan_options.h"

namespace tombolo::tools {

/// Collective over the ranks of a job: probes links and devices, and, for the bundled trainer, times the
/// model's layers on every rank. Before that rank 0 reads what --running and --measured name, and all ranks
/// take the job over from the running plan (take_over_job), so that a mistake there costs no measurement.
/// Rank 0 writes the cluster file where --cluster says (default cluster.json) and the times where --profile
/// says (default layers.json), sets both options to these paths, and returns true: it goes on to plan. The
/// others return false. Throws kInvalidUsage outside of a job of several ranks.
bool measure_here(PlanOptions& options);

}  // namespace tombolo::tools
