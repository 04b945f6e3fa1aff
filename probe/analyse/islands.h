// Islands: hosts that, as measured, reach each other markedly faster than they reach others; and where this
// contradicts the cluster file. The folder analyse/ owns the conclusions from measurements: islands, shared
// links, uplinks, fabrics. Its files are pure.
#pragma once

#include <string>
#include <vector>

#include "probe/analyse/grouping.h"
#include "topology/files/cluster_file.h"

namespace tombolo::probe {

struct Island {
  std::vector<std::string> hosts;
  /// False for a single host, and for hosts that reach none markedly faster than the others.
  bool close = true;
  /// The median over the pairs of hosts inside, by the best link of each pair; 0 where there is none
  double bytes_per_second = 0;
  /// Kinds of NIC by which the hosts reach each other best, the best first.
  std::vector<topology::NicKind> kinds;

  friend bool operator==(const Island&, const Island&) = default;
};

/// The islands of all hosts that links mention, in the cluster file's order. The distance between two hosts
/// is the time that a message of 1 MiB takes over the best link between them, latency included; hosts without
/// a link are farthest.
std::vector<Island> find_islands(const topology::ClusterFile& cluster);

/// Puts each island's hosts that have no cluster ("") into a new one. The names are "A", "B", ... in the
/// order of the islands, without names that are in use.
void name_clusters(topology::ClusterFile& cluster, const std::vector<Island>& islands);

/// Where islands differ from the clusters that the file declares, and from the RDMA fabrics that detection
/// found. Returns one sentence for each difference, for users.
std::vector<std::string> compare_islands(const topology::ClusterFile& cluster,
                                         const std::vector<Island>& islands);

}  // namespace tombolo::probe
