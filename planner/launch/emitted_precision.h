// In what a plan's devices multiply matrices, as the frameworks' flags say it.
#pragma once

#include <string>

#include "planner/plan/plan.h"
#include "topology/files/cluster_file.h"

namespace tombolo::planner {

struct EmittedPrecision {
  Precision precision = Precision::kFp32;
  std::string remark;  ///< a sentence, where it is not what the job says
};

/// The job's precision; but fp16 in place of bf16 where the library of devices knows a GPU of the plan that
/// has none, such as V100. Devices that the library does not know are taken to have it. Throws kUnsupported
/// for fp8 on a GPU without it, naming the GPU and its host.
EmittedPrecision emitted_precision(const Plan& plan, const topology::ClusterFile& cluster);

}  // namespace tombolo::planner
