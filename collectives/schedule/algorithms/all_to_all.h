// All-to-all: every pair exchanges its part directly.
#pragma once

#include "collectives/schedule/layout.h"
#include "collectives/schedule/schedule.h"

namespace tombolo::collectives {

/// problem.count is per pair. Never in place.
Schedule all_to_all(const Layout& layout, const Problem& problem, const Tuning& tuning);

}  // namespace tombolo::collectives
