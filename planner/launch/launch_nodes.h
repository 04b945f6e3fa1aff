// Which node runs which of a plan's ranks, in each way of numbering them; and what every node's environment
// needs.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "planner/plan/plan.h"
#include "topology/files/cluster_file.h"

namespace tombolo::planner {

/// How a framework numbers its ranks.
enum class Numbering {
  kPlan,               ///< as Plan::ranks: the launcher's order, which Tombolo's own programs read
  kStagesOutermost,    ///< by stage, then replica: Megatron's default (tp-cp-ep-dp-pp) and DeepSpeed's
  kReplicasOutermost,  ///< by replica, then stage: Megatron's --use-tp-pp-dp-mapping
};

struct Node {
  std::string host;
  std::vector<int> devices;  ///< by local rank
};

/// The plan's ranks in the order of that numbering. The pointers point into `plan`.
std::vector<const RankPlacement*> numbered(const Plan& plan, Numbering numbering);
/// The nodes in that order. Empty where the ranks of some host are not consecutive, because launchers start a
/// node's ranks together.
std::vector<Node> nodes_of(const Plan& plan, Numbering numbering);
/// Whether all nodes have the same number of ranks.
bool equally_large(const std::vector<Node>& nodes) noexcept;

/// One line per node: "# NODE_RANK=0  a0  (cluster A)  devices 0,1"; `label` stands before the number.
std::string node_comments(const std::vector<Node>& nodes, const topology::ClusterFile& cluster,
                          std::string_view label);

/// Quotes a text as one word for sh, in which nothing is expanded.
std::string shell_quoted(std::string_view text);
/// An address of the host that every other host reaches: that of its first Ethernet NIC, or its name where it
/// has none.
std::string master_address(const std::string& host, const topology::ClusterFile& cluster);

/// Lines that find the cluster file on a node, without which the plugin does not start, and set the node's
/// name in it where the machine has another. `number` is the variable that holds the node's number in
/// `nodes`; where it is empty, names must be those of the machines.
std::string cluster_environment(const std::vector<Node>& nodes, const topology::ClusterFile& cluster,
                                const std::string& cluster_path, std::string_view number);
/// Lines that set PROCESSES, torchrun's --nproc-per-node, which may differ between nodes.
std::string processes_of_node(const std::vector<Node>& nodes);
/// Escapes a text that stands between single quotes already.
std::string in_single_quotes(std::string_view text);
/// The hosts with the devices of their ranks, ordered by first rank, whether or not the ranks are
/// consecutive.
std::vector<Node> nodes_by_host(const std::vector<const RankPlacement*>& order);
/// Lines that renumber the devices of nodes on which local rank i does not have device i, as launchers
/// assume; empty where there are none. `subject` is the variable by which the cases are told apart,
/// "$NODE_RANK" or "$(uname -n)"; `by_name` says which of the two it is.
std::string visible_devices(const std::vector<Node>& nodes, std::string_view subject, bool by_name);

}  // namespace tombolo::planner
