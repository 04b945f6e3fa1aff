// Reduce-scatter for small vectors: every rank sends each part directly to its owner.
#pragma once

#include "collectives/schedule/algorithm.h"

namespace tombolo::collectives {

extern const Algorithm kDirectReduceScatter;

}  // namespace tombolo::collectives
