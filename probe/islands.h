// Hosts that reach each other markedly faster than they reach others, as measured; and what the cluster file
// says otherwise. Pure.
#pragma once

#include <string>
#include <vector>

#include "probe/grouping.h"
#include "topology/files/cluster_file.h"

namespace tombolo::probe {

struct Island {
  std::vector<std::string> hosts;
  /// False: hosts that reach nobody markedly faster than anybody, or only one.
  bool close = true;
  /// Median over the pairs inside, of each the best link; 0 where there is none.
  double bytes_per_second = 0;
  /// Kinds of NIC by which the hosts reach each other best, the best first.
  std::vector<topology::NicKind> kinds;

  friend bool operator==(const Island&, const Island&) = default;
};

/// Of all hosts that links name, in the cluster file's order. Two hosts are as far apart as a message of 1
/// MiB takes over the best link between them, latency included; hosts without a link are farthest.
std::vector<Island> find_islands(const topology::ClusterFile& cluster);

/// Gives hosts of no cluster ("") the islands' names: "A", "B", ... in their order, past those in use.
void name_clusters(topology::ClusterFile& cluster, const std::vector<Island>& islands);

/// Where islands differ from the clusters that the file declares, and from the RDMA fabrics that detection
/// found: a sentence each, for people.
std::vector<std::string> compare_islands(const topology::ClusterFile& cluster,
                                         const std::vector<Island>& islands);

}  // namespace tombolo::probe
