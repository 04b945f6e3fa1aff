// All-to-all: every pair of ranks exchanges its parts directly. Never in place.
#pragma once

#include "collectives/schedule/algorithm.h"

namespace tombolo::collectives {

extern const Algorithm kDirectAllToAll;

}  // namespace tombolo::collectives
