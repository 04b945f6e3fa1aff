// Writes a plan for a recipe of NeMo's llm collection under torchrun.
#include "planner/launch/emitters.h"
#include "planner/launch/torchrun_script.h"

namespace tombolo::planner {

std::string emit_nemo(const Plan& plan, const topology::ClusterFile& cluster,
                      const std::string& cluster_path) {
  const auto [numbering, nodes] =
      torchrun_nodes(plan, {Numbering::kStagesOutermost, Numbering::kReplicasOutermost}, true, "NeMo");
  return torchrun_script(plan, cluster, cluster_path,
                         {.title = "NeMo",
                          .example = "--no-python nemo llm pretrain --factory llama3_8b -y ...",
                          .nodes = nodes,
                          .framework = Framework::kNeMo,
                          .arguments = nemo_arguments(plan, cluster, numbering, nodes)});
}

}  // namespace tombolo::planner
