// Reduce-scatter of few bytes: each cluster sums at the relay of each rank what that rank is to get, and the
// sums cross as one message to each rank from each other cluster.
#pragma once

#include "collectives/schedule/algorithm.h"

namespace tombolo::collectives {

extern const Algorithm kRelayedReduceScatter;

}  // namespace tombolo::collectives
