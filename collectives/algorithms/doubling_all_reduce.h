// All-reduce for small vectors: recursive doubling, log2(n) exchanges of the whole vector.
#pragma once

#include "collectives/layout.h"
#include "collectives/schedule.h"

namespace tombolo::collectives {

Schedule doubling_all_reduce(const Layout& layout, const Problem& problem, const Tuning& tuning,
                             bool in_place);

}  // namespace tombolo::collectives
