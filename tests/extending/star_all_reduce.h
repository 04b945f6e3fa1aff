// All-reduce through one rank: every other rank sends it its vector, and gets the sum back.
#pragma once

#include "collectives/schedule/algorithm.h"

namespace tombolo::collectives {

extern const Algorithm kStarAllReduce;

}  // namespace tombolo::collectives
