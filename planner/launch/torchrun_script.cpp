#include "planner/launch/torchrun_script.h"

#include <fmt/ranges.h>

#include "base/error.h"
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

namespace {

/// The lines before the command, and what begins and ends it: a file of networks per group has to be removed
/// after the run, for which the shell has to stay and to pass signals on.
struct Started {
  std::string before, command, more, after;
};

Started started(const Plan& plan, const topology::ClusterFile& cluster, std::string_view networks_argument) {
  const std::string groups = networks_argument.empty() ? "" : group_networks(network_needs(plan, cluster));
  if (groups.empty()) return {"", "exec torchrun", "", ""};
  return {
      "groups=\n"
      "if [ \"$NETWORK\" = mixed ]; then\n"
      "  groups=$(mktemp) || exit 1\n"
      "  trap 'rm -f \"$groups\"' EXIT\n"
      "  cat > \"$groups\" <<'END'\n" +
          groups +
          "END\n"
          "fi\n"
          // A signal that comes before the program is known is passed on once it is.
          "program= stop=\n"
          "trap 'stop=1; [ -z \"$program\" ] || kill -TERM \"$program\" 2>/dev/null' HUP INT TERM\n",
      "torchrun", fmt::format(" \\\n  ${{groups:+{}\"$groups\"}}", networks_argument),
      " &\nprogram=$!\n"
      "[ -z \"$stop\" ] || kill -TERM \"$program\" 2>/dev/null\n"
      "wait \"$program\"; status=$?\n"
      "while kill -0 \"$program\" 2>/dev/null; do wait \"$program\"; status=$?; done\n"
      // The wait that a signal ended may have seen the program's end too, which the shell then keeps for the
      // next.
      "wait \"$program\" 2>/dev/null; kept=$?\n"
      "[ \"$kept\" -eq 127 ] || status=$kept\n"
      "exit \"$status\""};
}

}  // namespace

std::string torchrun_script(const Plan& plan, const topology::ClusterFile& cluster,
                            const std::string& cluster_path, const TorchrunScript& script) {
  std::string out = fmt::format(
      "#!/bin/sh\n"
      "# {} with Tombolo's NCCL plugin: {}, strategy {}.\n"
      "# Run on every node with NODE_RANK set, for example: NODE_RANK=0 sh this-file {}\n"
      "#\n# Nodes by rank:\n",
      script.title, plan.shape(), plan.strategy, script.example);
  out += node_comments(script.nodes, cluster, "NODE_RANK=") + '\n' +
         network_environment(plan, cluster, !script.networks_argument.empty()) +
         cluster_environment(script.nodes, cluster, cluster_path, "$NODE_RANK") +
         "export CUDA_DEVICE_MAX_CONNECTIONS=1\n" + visible_devices(script.nodes, "$NODE_RANK", false) +
         processes_of_node(script.nodes);
  const Started start = started(plan, cluster, script.networks_argument);
  return out + fmt::format(
                   "\n{}{} --rdzv-backend static --nnodes {} --nproc-per-node \"$PROCESSES\" --node-rank "
                   "\"$NODE_RANK\" \\\n  --master-addr {} --master-port 29500 \"$@\"{}{}{}\n{}",
                   start.before, start.command, script.nodes.size(),
                   shell_quoted(master_address(script.nodes.front().host, cluster)),
                   following_words(script.arguments), start.more, start.after,
                   remarks_text(script.arguments));
}

}  // namespace tombolo::planner
