// All-reduce on a flat ring: a reduce-scatter followed by an all-gather. Every rank sends 2 (n - 1) / n of
// the vector, to its neighbour only; combining a piece overlaps the transfer of the next.
#pragma once

#include "collectives/schedule/layout.h"
#include "collectives/schedule/schedule.h"

namespace tombolo::collectives {

Schedule ring_all_reduce(const Layout& layout, const Problem& problem, const Tuning& tuning, bool in_place);

}  // namespace tombolo::collectives
