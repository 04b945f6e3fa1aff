// A cluster as it could be: with a link that is slower, faster or new, with a host lost or throttled.
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
    /// "speed NAME FACTOR": a host's devices, or those of a cluster's hosts, compute FACTOR times as fast
    kSpeed
  };
  Kind kind = Kind::kLose;
  std::string name, to;
  double bytes_per_second = 0;
  double latency_seconds = -1;  ///< negative: unchanged, or 0 for a new link
  double factor = 1;
};

/// Parses changes that are separated by ";". Throws kInvalidUsage naming the wrong part and what is expected
/// there.
std::vector<Change> parse_changes(std::string_view text);

/// The cluster after the changes, which are applied one after the other. A link replaces what the file says
/// of the pair of NICs that routing takes, and the speed of a shared link of which it names every pair; hosts
/// without NICs that reach each other cannot be linked. Throws kInvalidUsage on a name that is neither host
/// nor cluster, and where no host would be left.
topology::ClusterFile with_changes(const topology::ClusterFile& cluster, const std::vector<Change>& changes);

}  // namespace tombolo::planner
