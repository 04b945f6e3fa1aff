// Two-level reduce-scatter: each cluster sums what the others are to get, and every sum crosses once.
#pragma once

#include "collectives/schedule/algorithm.h"

namespace tombolo::collectives {

extern const Algorithm kTwoLevelReduceScatter;

}  // namespace tombolo::collectives
