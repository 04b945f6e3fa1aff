// Writes a plan as torchrun's node ranks, for any PyTorch program.
#include <fmt/format.h>

#include "base/error.h"
#include "planner/launch/emitters.h"
#include "planner/launch/launch_nodes.h"

namespace tombolo::planner {

std::string emit_torchrun(const Plan& plan, const topology::ClusterFile& cluster,
                          const std::string& cluster_path) {
  const std::vector<Node> nodes = nodes_of(plan, Numbering::kPlan);
  if (nodes.empty())
    fail(Cause::kUnsupported,
         "torchrun cannot express this plan: it numbers a node's ranks in a row, and the plan's launcher "
         "order "
         "returns to a host; plan with --order block, or start it by slurm or mpi");
  std::string out = fmt::format(
      "#!/bin/sh\n"
      "# torchrun with Tombolo's NCCL plugin: rank r of the job is rank r of the plan ({}, "
      ""
      "strategy {}).\n"
      "# Run on every node with NODE_RANK set: NODE_RANK=0 sh this-file train.py ...\n"
      "# A program that is no Python file: NODE_RANK=0 sh this-file --no-python tombolo train --plan "
      "plan.json "
      "...\n"
      "#\n# Nodes:\n",
      plan.shape(), plan.strategy);
  out += node_comments(nodes, cluster, "NODE_RANK=") + '\n' + common_environment(plan, cluster) +
         cluster_environment(nodes, cluster, cluster_path, "$NODE_RANK") +
         visible_devices(nodes, "$NODE_RANK", false) + processes_of_node(nodes);
  out += fmt::format(
      "\nexec torchrun --rdzv-backend static --nnodes {} --nproc-per-node \"$PROCESSES\" --node-rank "
      "\"$NODE_RANK\" \\\n  --master-addr {} --master-port 29500 \"$@\"\n",
      nodes.size(), shell_quoted(master_address(nodes.front().host, cluster)));
  return out;
}

}  // namespace tombolo::planner
