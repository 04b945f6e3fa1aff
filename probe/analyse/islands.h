// Islands: hosts that, as measured, reach each other markedly faster than they reach others; and where the
// cluster file says otherwise. The folder analyse/ owns what follows from measurements: islands, shared
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
  /// Median over the pairs of hosts inside, by the best link of each pair; 0 where there is none.
  double bytes_per_second = 0;
  /// Kinds of NIC by which the hosts reach each other best, the best first.
  std::vector<topology::NicKind> kinds;

  friend bool operator==(const Island&, const Island&) = default;
};

/// The islands of all hosts that links name, in the cluster file's order. The distance between two hosts is
/// the time of a message of 1 MiB over the best link between them, latency included; hosts without a link are
/// farthest.
std::vector<Island> find_islands(const topology::ClusterFile& cluster);

/// Makes a cluster of each island's hosts that have none (""): "A", "B", ... in the islands' order, without
/// names in use.
void name_clusters(topology::ClusterFile& cluster, const std::vector<Island>& islands);

/// Where islands differ from the clusters that the file declares, and from the RDMA fabrics that detection
/// found: a sentence each, to be shown.
std::vector<std::string> compare_islands(const topology::ClusterFile& cluster,
                                         const std::vector<Island>& islands);

}  // namespace tombolo::probe
