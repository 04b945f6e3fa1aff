// All-gather by host and column: parts cross to each other cluster once, then go to all hosts in rounds, and
// last to all ranks of each.
#pragma once

#include "collectives/schedule/algorithm.h"

namespace tombolo::collectives {

extern const Algorithm kGridAllGather;

}  // namespace tombolo::collectives
