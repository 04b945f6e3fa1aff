// All-gather on a ring, in pipelined pieces.
#pragma once

#include "collectives/schedule/algorithm.h"

namespace tombolo::collectives {

extern const Algorithm kRingAllGather;

}  // namespace tombolo::collectives
