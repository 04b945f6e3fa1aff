// A cluster as it might be: a link slower, faster or new, a host gone or throttled.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "topology/files/cluster_file.h"

namespace tombolo::planner {

/// One change of a cluster.
struct Change {
  enum class Kind {
    kLose,  ///< "lose NAME": a host, or all hosts of a cluster
    kLink,  ///< "link FROM TO RATE [LATENCY]": hosts or clusters, both directions; as "link A B 10Gbit 2ms"
    kSpeed  ///< "speed NAME FACTOR": a host's devices, or a cluster's, compute so many times as fast
  };
  Kind kind = Kind::kLose;
  std::string name, to;
  double bytes_per_second = 0;
  double latency_seconds = -1;  ///< negative: as it is; of a new link 0
  double factor = 1;
};

/// Changes with ";" between them. Throws kInvalidUsage naming the part and what is expected there.
std::vector<Change> parse_changes(std::string_view text);

/// The cluster after the changes, one after the other. A link replaces what the file says of the pair of NICs
/// that routing takes, and the speed of a shared link of which it names every pair; hosts without NICs that
/// reach each other cannot be linked. Throws kInvalidUsage on a name that is neither host nor cluster, and
/// where nothing would be left.
topology::ClusterFile with_changes(const topology::ClusterFile& cluster, const std::vector<Change>& changes);

}  // namespace tombolo::planner
