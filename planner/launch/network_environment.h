// Over which networks NCCL communicates in a launch script, and how it is set up for the slow link.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "planner/plan/plan.h"
#include "topology/files/cluster_file.h"

namespace tombolo::planner {

/// What of the network a plan's launch script has to know.
struct NetworkNeeds {
  bool rdma_everywhere = false;  ///< all its hosts reach each other by RDMA
  bool data_by_rdma = false;     ///< every group of replicas stays where RDMA reaches
  bool pipeline_by_rdma = false;
  bool experts_by_rdma = false;  ///< and every group that divides experts
  /// The path between two clusters of the plan with the most bytes under way.
  struct LongLink {
    std::string from, to;  ///< clusters
    double bytes_per_second = 0, round_trip_seconds = 0;
    topology::NicKind kind = topology::NicKind::kTcp;
    double bytes_under_way() const noexcept { return bytes_per_second * round_trip_seconds; }
  };
  std::optional<LongLink> long_link;  ///< nothing where there is one cluster
  int ranks_per_host = 1;             ///< the most
};
NetworkNeeds network_needs(const Plan& plan, const topology::ClusterFile& cluster);

/// Lines that set NCCL up by NETWORK: "tombolo" (the default) takes the plugin for all groups, "nccl" NCCL's
/// own network, and "mixed" NCCL's own where group_networks() says so and the plugin elsewhere. They also
/// name the Ethernet NIC for the frameworks' own sockets, where all hosts have one of the same name, and size
/// buffers for the long link, each with its reason.
std::string network_environment(const Plan& plan, const topology::ClusterFile& cluster, bool may_mix);

/// Megatron Core's communicator configuration (YAML) for NETWORK=mixed: groups that stay where RDMA reaches
/// take NCCL's own "IB"; those that are not named take the plugin. Empty where no group does, or where all
/// do.
std::string group_networks(const NetworkNeeds& needs);

}  // namespace tombolo::planner
