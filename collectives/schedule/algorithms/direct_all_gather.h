// All-gather for small vectors: every rank sends its part directly to all others.
#pragma once

#include "collectives/schedule/algorithm.h"

namespace tombolo::collectives {

extern const Algorithm kDirectAllGather;

}  // namespace tombolo::collectives
