// Ranks and links of large plans in few lines: by stage, and by cluster.
#pragma once

#include <cstdint>
#include <set>
#include <string>
#include <vector>

#include "planner/plan/plan.h"
#include "planner/simulate/simulator.h"
#include "topology/files/cluster_file.h"

namespace tombolo::tools {

/// Replicas that are alike: equal stages, rows and micro-batches, each stage in the same clusters.
struct ReplicaGroup {
  std::vector<int> replicas;
  /// "2", "0-7" or "0, 2, 5 and 13 others".
  std::string name() const;
};
/// In the order of their first replicas.
std::vector<ReplicaGroup> replica_groups(const planner::Plan& plan, const topology::ClusterFile& cluster);

/// One stage of replicas that are alike, or several neighbouring ones.
struct StageRow {
  std::size_t group = 0;  ///< of the replicas
  int first_stage = 0, last_stage = 0, layers_each = 0;
  std::string layers;  ///< "9 (0-8)", with several model chunks those of each; "9 each" of several stages
  std::vector<int> ranks;
  std::set<std::string> clusters;
  std::set<std::string> gradients, pipeline;  ///< the slowest kinds of NIC in its ranks' groups; "-" for none
  std::uint64_t memory = 0;                   ///< of the fullest rank
  /// "3" or "3-17".
  std::string stages() const;
};
/// By group and stage. Where there are many stages, neighbours that are alike share a row.
std::vector<StageRow> stage_rows(const planner::Plan& plan, const topology::ClusterFile& cluster,
                                 const std::vector<ReplicaGroup>& groups);

/// "0-7 on a0, 8-15 on a1", or where these are more than four "128 on 16 hosts, a0 to a15". Of frameworks
/// other than the bundled trainer, which number ranks in their own way, only how many: "8 on a0, 8 on a1".
/// `ranks` are in ascending order.
std::string ranks_text(const planner::Plan& plan, const std::vector<int>& ranks);

/// All links of one kind from one cluster to another.
struct LinkGroup {
  std::string from, to;  ///< clusters
  topology::NicKind kind = topology::NicKind::kTcp;
  int links = 0;
  double bytes = 0;          ///< per step, over all of them
  double most_bytes = 0;     ///< per step, over the fullest
  double least_seconds = 0;  ///< the longest that any of them is busy in a step; 0 where no rate is known
};
/// Ordered by that time, the longest first.
std::vector<LinkGroup> link_groups(const topology::ClusterFile& cluster,
                                   const planner::Simulation& simulation);

}  // namespace tombolo::tools
