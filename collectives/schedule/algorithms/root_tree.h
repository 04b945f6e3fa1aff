// The tree along which few bytes go from a root to all ranks, or from all to it: binomial among the clusters,
// each of which one rank of it enters, and binomial inside each. So a byte crosses to each cluster once.
#pragma once

#include <vector>

#include "collectives/schedule/rank_map.h"

namespace tombolo::collectives {

/// This rank's place.
struct TreePlace {
  int parent = -1;            ///< a rank; -1: it is the root
  std::vector<int> children;  ///< in the order in which they should be sent to: what is farthest first
};

/// Pure. Where clusters are no farther than ranks are, they are one tree.
TreePlace place_in_tree(const RankMap& ranks, int root);

}  // namespace tombolo::collectives
