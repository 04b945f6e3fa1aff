// The order in which broadcasts and reductions pass through the ranks.
#pragma once

#include <cstddef>
#include <vector>

#include "collectives/schedule/rank_map.h"

namespace tombolo::collectives {

/// The root, then the rest of its cluster, then the other clusters, so that each cluster is entered once.
std::vector<int> chain_from(const RankMap& ranks, int root);

/// Where `rank` is in a chain.
std::size_t position_in(const std::vector<int>& chain, int rank);

}  // namespace tombolo::collectives
