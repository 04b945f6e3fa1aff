// Writes a plan as a job for Slurm's sbatch: every rank on its host, in the plan's order.
#include <fmt/format.h>

#include <algorithm>

#include "planner/launch/emitters.h"
#include "planner/launch/framework_arguments.h"
#include "planner/launch/framework_environment.h"
#include "planner/launch/group_networks_file.h"
#include "planner/launch/launch_nodes.h"
#include "planner/launch/network_environment.h"

namespace tombolo::planner {

std::string emit_slurm(const Plan& plan, const topology::ClusterFile& cluster,
                       const std::string& cluster_path) {
  const FrameworkStart start = framework_start(plan, cluster);
  const std::string_view argument = networks_argument(plan.job.framework);
  const auto order = numbered(plan, start.numbering);
  const std::vector<Node> nodes = nodes_by_host(order);
  bool gpus = false;
  std::size_t most = 0;
  std::string names;
  for (const Node& node : nodes) {
    most = std::max(most, node.devices.size());
    if (const topology::Host* host = cluster.find_host(node.host))
      for (const auto& device : host->devices) gpus |= device.kind == topology::DeviceKind::kGpu;
    names += fmt::format("{}{}", names.empty() ? "" : ",", node.host);
  }
  std::string out = fmt::format(
      "#!/bin/sh\n"
      "#SBATCH --job-name=tombolo\n"
      "#SBATCH --nodes={}\n"
      "#SBATCH --ntasks={}\n"
      "#SBATCH --ntasks-per-node={}\n"
      "#SBATCH --nodelist={}\n",
      nodes.size(), order.size(), most, names);
  if (gpus) out += fmt::format("#SBATCH --gpus-per-node={}\n", most);
  out += fmt::format(
      "# Slurm with Tombolo's NCCL plugin: {}, strategy {}. {}\n"
      "# sbatch this-file {}\n"
      "# The hosts' names have to be Slurm's.\n#\n# Nodes:\n",
      plan.shape(), plan.strategy, numbering_text(plan, start), example_of(plan));
  out += node_comments(nodes, cluster, "") + '\n' + network_environment(plan, cluster, !argument.empty()) +
         cluster_environment(nodes, cluster, cluster_path, "") +
         framework_environment(plan, cluster, plan.job.framework);
  out += fmt::format("export MASTER_ADDR={} MASTER_PORT=29500 WORLD_SIZE={}\n",
                     shell_quoted(master_address(order.front()->host, cluster)), order.size());
  out +=
      "\n# The host of each rank, in order, which --distribution=arbitrary follows.\n"
      "SLURM_HOSTFILE=$(mktemp) || exit 1; export SLURM_HOSTFILE\n"
      "trap 'rm -f \"$SLURM_HOSTFILE\"' EXIT\n"
      "cat > \"$SLURM_HOSTFILE\" <<'END'\n";
  for (const RankPlacement* place : order) out += place->host + '\n';
  out += "END\n";
  // Each rank writes the file of networks on its own node.
  const GroupNetworksFile groups = group_networks_file(network_needs(plan, cluster), argument);
  const std::string devices = visible_devices(nodes, "$SLURMD_NODENAME", true);
  out += fmt::format(
      "srun --distribution=arbitrary --ntasks={} sh -c '\n"
      "export RANK=\"$SLURM_PROCID\" LOCAL_RANK=\"$SLURM_LOCALID\"\n{}\n' sh \"$@\"{}\n{}",
      order.size(), in_single_quotes(devices + groups.around("\"$@\"")), following_words(start.arguments),
      remarks_text(start.arguments));
  return out;
}

}  // namespace tombolo::planner
