// Broadcast: a pipelined chain that visits the root's cluster first, so that every link between clusters
// carries the vector once; a binomial tree where it is small.
#pragma once

#include <vector>

#include "collectives/schedule/layout.h"
#include "collectives/schedule/schedule.h"

namespace tombolo::collectives {

Schedule broadcast(const Layout& layout, const Problem& problem, const Tuning& tuning, bool in_place);

/// The root, then the rest of its cluster, then the other clusters: where broadcasts and reductions pass by.
std::vector<int> chain_from(const Layout& layout, int root);

}  // namespace tombolo::collectives
