// Reduce to a root: broadcast's chain or tree, the other way.
#pragma once

#include "collectives/schedule/layout.h"
#include "collectives/schedule/schedule.h"

namespace tombolo::collectives {

/// Only the root's output is written.
Schedule reduce(const Layout& layout, const Problem& problem, const Tuning& tuning, bool in_place);

}  // namespace tombolo::collectives
