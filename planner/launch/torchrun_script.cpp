#include "planner/launch/torchrun_script.h"

#include <fmt/ranges.h>

#include "base/error.h"
#include "planner/launch/framework_environment.h"
#include "planner/launch/group_networks_file.h"
#include "planner/launch/network_environment.h"

namespace tombolo::planner {

NumberedNodes torchrun_nodes(const Plan& plan, const std::vector<Numbering>& numberings, bool equal,
                             std::string_view title) {
  bool unequal = false;
  for (const Numbering numbering : numberings) {
    std::vector<Node> nodes = nodes_of(plan, numbering);
    if (nodes.empty()) continue;
    if (!equal || equally_large(nodes)) return {numbering, std::move(nodes)};
    unequal = true;
  }
  if (unequal)
    fail(Cause::kUnsupported,
         "{} cannot express this plan: its nodes have different numbers of ranks; start it by "
         "slurm or mpi (--emit), which place each rank",
         title);
  fail(Cause::kUnsupported,
       "{} cannot express this plan: its launcher numbers a node's ranks in a row, and in {} this plan "
       "returns to a "
       "node; {}start it by slurm or mpi (--emit), which place each rank",
       title, numberings.size() > 1 ? "each of its orders" : "its order",
       numberings.front() == Numbering::kPlan ? "plan with --order block, or " : "");
}

std::string torchrun_script(const Plan& plan, const topology::ClusterFile& cluster,
                            const std::string& cluster_path, const TorchrunScript& script) {
  const std::string_view argument = networks_argument(script.framework);
  std::string out = fmt::format(
      "#!/bin/sh\n"
      "# {} with Tombolo's NCCL plugin: {}, strategy {}.\n"
      "# Run on every node with NODE_RANK set, for example: NODE_RANK=0 sh this-file {}\n"
      "#\n# Nodes by rank:\n",
      script.title, plan.shape(), plan.strategy, script.example);
  out += node_comments(script.nodes, cluster, "NODE_RANK=") + '\n' +
         network_environment(plan, cluster, !argument.empty()) +
         cluster_environment(script.nodes, cluster, cluster_path, "$NODE_RANK") +
         framework_environment(plan, cluster, script.framework) +
         visible_devices(script.nodes, "$NODE_RANK", false) + processes_of_node(script.nodes);
  const GroupNetworksFile groups = group_networks_file(network_needs(plan, cluster), argument);
  return out +
         fmt::format(
             "\n{}{}torchrun --rdzv-backend static --nnodes {} --nproc-per-node \"$PROCESSES\" --node-rank "
             "\"$NODE_RANK\" \\\n  --master-addr {} --master-port 29500 \"$@\"{}{}{}\n{}",
             groups.before, groups.command, script.nodes.size(),
             shell_quoted(master_address(script.nodes.front().host, cluster)),
             following_words(script.arguments), groups.more, groups.after, remarks_text(script.arguments));
}

}  // namespace tombolo::planner
