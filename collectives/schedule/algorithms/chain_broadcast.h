// Broadcast: a pipelined chain that visits the root's cluster first, so that every link between clusters
// carries the vector once.
#pragma once

#include "collectives/schedule/algorithm.h"

namespace tombolo::collectives {

extern const Algorithm kChainBroadcast;

}  // namespace tombolo::collectives
