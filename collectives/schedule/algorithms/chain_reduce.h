// Reduce to a root: the pipelined chain of the broadcast, from its end to the root. Only the root's
// output is written.
#pragma once

#include "collectives/schedule/algorithm.h"

namespace tombolo::collectives {

extern const Algorithm kChainReduce;

}  // namespace tombolo::collectives
