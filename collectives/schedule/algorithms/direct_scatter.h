// Scatter: the root sends every rank its part directly. In place, the root's output is its part of the
// input.
#pragma once

#include "collectives/schedule/algorithm.h"

namespace tombolo::collectives {

extern const Algorithm kDirectScatter;

}  // namespace tombolo::collectives
