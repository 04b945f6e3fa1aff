// bench/bound/ owns the time below which no collective can be on a network, whatever its algorithm: what has
// to go through the links that join groups of hosts, at their rates. docs/collectives.md derives it.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "collectives/schedule/collective.h"
#include "topology/files/cluster_file.h"

namespace tombolo::bench {

/// One of the groups into which all ranks are divided, and what joins it to the others together.
struct Group {
  std::string name;
  double ranks = 0;
  double out = 0, in = 0;      ///< bytes per second; infinite where nothing limits them
  double latency_seconds = 0;  ///< the least to or from another group, one way
  bool has_root = false;       ///< of a collective that has one
};

struct Bound {
  double seconds = 0;
  std::string cause;  ///< "16 MiB out of A, 1 Gbit/s"
};

/// `bytes` are those of the longest buffer of a call, as nccl-tests counts them; encoded where they travel
/// so. Of at least two groups with ranks. Pure.
Bound bound_of(collectives::Collective collective, double bytes, const std::vector<Group>& groups);

/// The greatest bound of all these divisions of the ranks of a job: by cluster, some clusters and all others,
/// by host. NICs count with their nominal rates, and links that NICs share with those that the file states.
/// `hosts`: each rank's, by rank. `root` counts only where there is one. No bound where all ranks are on one
/// host. Throws kInvalidUsage where the file has no such host.
Bound lower_bound(const topology::ClusterFile& cluster, const std::vector<std::string>& hosts,
                  collectives::Collective collective, double bytes, int root);

}  // namespace tombolo::bench
