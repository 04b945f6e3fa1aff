// All-reduce for small vectors: recursive doubling, log2(n) exchanges of the whole vector.
#pragma once

#include "collectives/schedule/layout.h"
#include "collectives/schedule/schedule.h"

namespace tombolo::collectives {

Schedule doubling_all_reduce(const Layout& layout, const Problem& problem, const Tuning& tuning,
                             bool in_place);

}  // namespace tombolo::collectives
