// All-gather: on a ring, or directly to everybody where the vector is small.
#pragma once

#include "collectives/schedule/layout.h"
#include "collectives/schedule/schedule.h"

namespace tombolo::collectives {

/// problem.count is per rank. In place, the input is this rank's part of the output.
Schedule all_gather(const Layout& layout, const Problem& problem, const Tuning& tuning, bool in_place);

}  // namespace tombolo::collectives
