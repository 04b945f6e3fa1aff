// The tree along which few bytes go from a root to all ranks, or from all to it: binomial among the clusters,
// each of which one rank of it enters, and binomial inside each. So a byte crosses to each cluster once.
#pragma once

#include <cstdint>
#include <vector>

#include "collectives/schedule/network_costs.h"
#include "collectives/schedule/rank_map.h"

namespace tombolo::collectives {

/// This rank's place.
struct TreePlace {
  int parent = -1;            ///< a rank; -1: it is the root
  std::vector<int> children;  ///< in the order in which they should be sent to: what is farthest first
};

/// Pure. Where clusters are no farther than ranks are, they are one tree.
TreePlace place_in_tree(const RankMap& ranks, int root);

/// `work`: of a rank for what one message brings.
Nanoseconds cost_of_tree(const JobCosts& job, std::uint64_t bytes, Nanoseconds work) noexcept;

}  // namespace tombolo::collectives
