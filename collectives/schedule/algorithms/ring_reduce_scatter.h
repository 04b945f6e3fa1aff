// Reduce-scatter on a ring, in pipelined pieces.
#pragma once

#include "collectives/schedule/algorithm.h"

namespace tombolo::collectives {

extern const Algorithm kRingReduceScatter;

}  // namespace tombolo::collectives
