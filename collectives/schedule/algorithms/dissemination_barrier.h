// Barrier by dissemination: in round k a rank sends to the one 2^k positions after it and receives from
// the one 2^k positions before it. Where clusters are far, inside each of them; then each rank hears from
// each other cluster.
#pragma once

#include "collectives/schedule/algorithm.h"

namespace tombolo::collectives {

extern const Algorithm kDisseminationBarrier;

}  // namespace tombolo::collectives
