// Broadcast for small vectors: the tree of root_tree.h.
#pragma once

#include "collectives/schedule/algorithm.h"

namespace tombolo::collectives {

extern const Algorithm kTreeBroadcast;

}  // namespace tombolo::collectives
