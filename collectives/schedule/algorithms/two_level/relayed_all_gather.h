// All-gather of few bytes: inside each cluster all to all, then each cluster's parts as one message to each
// rank of the others.
#pragma once

#include "collectives/schedule/algorithm.h"

namespace tombolo::collectives {

extern const Algorithm kRelayedAllGather;

}  // namespace tombolo::collectives
