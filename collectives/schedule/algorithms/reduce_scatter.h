// Reduce-scatter: on a ring, or directly to the owners where the vector is small.
#pragma once

#include "collectives/schedule/layout.h"
#include "collectives/schedule/schedule.h"

namespace tombolo::collectives {

/// problem.count is per rank. In place, the output is this rank's part of the input.
Schedule reduce_scatter(const Layout& layout, const Problem& problem, const Tuning& tuning, bool in_place);

}  // namespace tombolo::collectives
