// Reduce-scatter by host and column: each host sums up, then the hosts of a cluster do in rounds, and last
// the clusters' sums cross.
#pragma once

#include "collectives/schedule/algorithm.h"

namespace tombolo::collectives {

extern const Algorithm kGridReduceScatter;

}  // namespace tombolo::collectives
