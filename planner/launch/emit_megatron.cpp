// Writes a plan for Megatron-LM under torchrun.
#include "planner/launch/emitters.h"
#include "planner/launch/torchrun_script.h"

namespace tombolo::planner {

std::string emit_megatron(const Plan& plan, const topology::ClusterFile& cluster,
                          const std::string& cluster_path) {
  const auto [numbering, nodes] =
      torchrun_nodes(plan, {Numbering::kStagesOutermost, Numbering::kReplicasOutermost}, true, "Megatron-LM");
  return torchrun_script(plan, cluster, cluster_path,
                         {.title = "Megatron-LM",
                          .example = "pretrain_gpt.py --data-path ...",
                          .nodes = nodes,
                          .framework = Framework::kMegatron,
                          .arguments = megatron_arguments(plan, cluster, numbering)});
}

}  // namespace tombolo::planner
