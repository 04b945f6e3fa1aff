// All-reduce for small vectors: recursive doubling, log2(n) exchanges of the whole vector. Where clusters are
// far, inside each of them; their sums then cross, each as one message to each rank of the others.
#pragma once

#include "collectives/schedule/algorithm.h"

namespace tombolo::collectives {

extern const Algorithm kDoublingAllReduce;

}  // namespace tombolo::collectives
