// Writes a plan as torchrun's node ranks, for any PyTorch program, or for the plan's own framework.
#include "planner/launch/emitters.h"
#include "planner/launch/torchrun_script.h"

namespace tombolo::planner {

std::string emit_torchrun(const Plan& plan, const topology::ClusterFile& cluster,
                          const std::string& cluster_path) {
  switch (plan.job.framework) {
    case Framework::kMegatron:
      return emit_megatron(plan, cluster, cluster_path);
    case Framework::kNeMo:
      return emit_nemo(plan, cluster, cluster_path);
    case Framework::kTorchTitan:
      return emit_torchtitan(plan, cluster, cluster_path);
    case Framework::kDeepSpeed:
    case Framework::kTombolo:
    case Framework::kAny:
      break;
  }
  const FrameworkStart start = framework_start(plan, cluster);
  return torchrun_script(
      plan, cluster, cluster_path,
      {.title = "torchrun",
       .example = "train.py ... (no Python file: --no-python tombolo train --plan plan.json ...)",
       .nodes = torchrun_nodes(plan, {start.numbering}, false, "torchrun").nodes,
       .framework = plan.job.framework,
       .arguments = start.arguments});
}

}  // namespace tombolo::planner
