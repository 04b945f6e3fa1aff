// Gather: every rank sends its part directly to the root. In place, the root's input is its part of the
// output.
#pragma once

#include "collectives/schedule/algorithm.h"

namespace tombolo::collectives {

extern const Algorithm kDirectGather;

}  // namespace tombolo::collectives
