// All-reduce on a flat ring: a reduce-scatter followed by an all-gather. Every rank sends 2 (n - 1) / n
// of the vector, to its neighbour only; combining a piece overlaps the transfer of the next.
#pragma once

#include "collectives/schedule/algorithm.h"

namespace tombolo::collectives {

extern const Algorithm kRingAllReduce;

}  // namespace tombolo::collectives
