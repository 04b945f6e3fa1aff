// Writes a plan for torchtitan under torchrun.
#include "planner/launch/emitters.h"
#include "planner/launch/torchrun_script.h"

namespace tombolo::planner {

std::string emit_torchtitan(const Plan& plan, const topology::ClusterFile& cluster,
                            const std::string& cluster_path) {
  const auto [numbering, nodes] = torchrun_nodes(plan, {Numbering::kStagesOutermost}, true, "torchtitan");
  return torchrun_script(plan, cluster, cluster_path,
                         {.title = "torchtitan",
                          .example = "-m torchtitan.train --job.config_file ...",
                          .nodes = nodes,
                          .framework = Framework::kTorchTitan,
                          .arguments = torchtitan_arguments(plan, cluster)});
}

}  // namespace tombolo::planner
