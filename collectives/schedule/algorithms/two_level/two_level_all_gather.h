// Two-level all-gather: parts cross to each other cluster once, dealt to its members, and go around inside.
#pragma once

#include "collectives/schedule/algorithm.h"

namespace tombolo::collectives {

extern const Algorithm kTwoLevelAllGather;

}  // namespace tombolo::collectives
