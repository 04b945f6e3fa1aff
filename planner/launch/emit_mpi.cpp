// Writes a plan for Open MPI's mpirun: every rank on its host, in the plan's order.
#include <fmt/format.h>

#include "planner/launch/emitters.h"
#include "planner/launch/framework_arguments.h"
#include "planner/launch/framework_environment.h"
#include "planner/launch/group_networks_file.h"
#include "planner/launch/launch_nodes.h"
#include "planner/launch/network_environment.h"

namespace tombolo::planner {

std::string emit_mpi(const Plan& plan, const topology::ClusterFile& cluster,
                     const std::string& cluster_path) {
  const FrameworkStart start = framework_start(plan, cluster);
  const std::string_view argument = networks_argument(plan.job.framework);
  const auto order = numbered(plan, start.numbering);
  const std::vector<Node> nodes = nodes_by_host(order);
  std::string out = fmt::format(
      "#!/bin/sh\n"
      "# Open MPI with Tombolo's NCCL plugin: {}, strategy {}. {}\n"
      "# Run on one machine that reaches the nodes: sh this-file {}\n"
      "# MPIRUN_FLAGS holds further flags for mpirun.\n"
      "#\n# Nodes:\n",
      plan.shape(), plan.strategy, numbering_text(plan, start), example_of(plan));
  out += node_comments(nodes, cluster, "") +
         "\ncase \"$(mpirun --version 2>&1)\" in\n"
         "  *Open*MPI*) ;;\n"
         "  *) echo \"$0: mpirun is not Open MPI, whose sequential mapping keeps this order of hosts\" >&2; "
         "exit 2 "
         ";;\n"
         "esac\n" +
         network_environment(plan, cluster, !argument.empty()) +
         cluster_environment(nodes, cluster, cluster_path, "") +
         framework_environment(plan, cluster, plan.job.framework);
  out += fmt::format("export MASTER_ADDR={} MASTER_PORT=29500 WORLD_SIZE={}\n",
                     shell_quoted(master_address(order.front()->host, cluster)), order.size());
  out +=
      "\n# The host of each rank, in order, which the sequential mapping follows.\n"
      "hosts=$(mktemp) || exit 1\n"
      "trap 'rm -f \"$hosts\"' EXIT\n"
      "cat > \"$hosts\" <<'END'\n";
  for (const RankPlacement* place : order) out += place->host + '\n';
  out +=
      "END\n"
      "passed=\n"
      "for name in $(env | sed -nE 's/^((NCCL|GLOO|TOMBOLO)_[A-Z_0-9]*|NETWORK|" +
      std::string(kFrameworkVariables) + ")=.*/\\1/p'); do passed=\"$passed -x $name\"; done\n";
  // Each rank writes the file of networks on its own node.
  const GroupNetworksFile groups = group_networks_file(network_needs(plan, cluster), argument);
  const std::string devices = visible_devices(nodes, "${TOMBOLO_HOST:-$(uname -n)}", true);
  out += fmt::format(
      "mpirun -np {} --hostfile \"$hosts\" --map-by seq $passed -x MASTER_ADDR -x MASTER_PORT -x WORLD_SIZE "
      "$MPIRUN_FLAGS sh -c '\n"
      "export RANK=\"$OMPI_COMM_WORLD_RANK\" LOCAL_RANK=\"$OMPI_COMM_WORLD_LOCAL_RANK\"\n{}\n' sh "
      "\"$@\"{}\n{}",
      order.size(), in_single_quotes(devices + groups.around("\"$@\"")), following_words(start.arguments),
      remarks_text(start.arguments));
  return out;
}

}  // namespace tombolo::planner
