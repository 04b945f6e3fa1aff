// Broadcast for small vectors: a binomial tree over the chain of chain_from().
#pragma once

#include "collectives/schedule/algorithm.h"

namespace tombolo::collectives {

extern const Algorithm kTreeBroadcast;

}  // namespace tombolo::collectives
