// Reduce to a root for small vectors: the tree of the small broadcast, from its leaves to the root. Only
// the root's output is written.
#pragma once

#include "collectives/schedule/algorithm.h"

namespace tombolo::collectives {

extern const Algorithm kTreeReduce;

}  // namespace tombolo::collectives
