// The order in which broadcasts and reductions pass through the ranks.
#pragma once

#include <cstddef>
#include <vector>

#include "collectives/schedule/collective.h"
#include "collectives/schedule/network_costs.h"
#include "collectives/schedule/rank_map.h"
#include "collectives/schedule/tuning.h"

namespace tombolo::collectives {

/// The root, then the rest of its cluster, then the other clusters, so that each cluster is entered once.
std::vector<int> chain_from(const RankMap& ranks, int root);

/// Where `rank` is in a chain.
std::size_t position_in(const std::vector<int>& chain, int rank);

/// What pieces of the problem's vector cost that follow each other along such a chain. `sums`: each rank adds
/// its own.
Nanoseconds cost_of_chain(const JobCosts& job, const Problem& problem, const Tuning& tuning,
                          bool sums) noexcept;

}  // namespace tombolo::collectives
