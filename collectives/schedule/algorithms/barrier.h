// Barrier by dissemination: in round k a rank tells the one 2^k places on, and hears from the one 2^k places
// back.
#pragma once

#include "collectives/schedule/layout.h"
#include "collectives/schedule/schedule.h"

namespace tombolo::collectives {

Schedule barrier(const Layout& layout);

}  // namespace tombolo::collectives
