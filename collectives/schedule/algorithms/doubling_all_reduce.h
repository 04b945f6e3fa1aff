// All-reduce for small vectors: recursive doubling, log2(n) exchanges of the whole vector.
#pragma once

#include "collectives/schedule/algorithm.h"

namespace tombolo::collectives {

extern const Algorithm kDoublingAllReduce;

}  // namespace tombolo::collectives
