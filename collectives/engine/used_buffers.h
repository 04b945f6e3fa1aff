// Which bytes of its buffers a call reads, and which it writes.
#pragma once

#include <vector>

#include "collectives/engine/collective_call.h"
#include "collectives/gpu/staged.h"

namespace tombolo::collectives {

/// The buffers that this rank's part of a call uses, whose arguments have been checked. What lies between the
/// parts of a buffer is in none of the ranges, nor is what only other ranks use.
std::vector<gpu::Buffer> used_buffers(const CollectiveCall& call, int rank, int ranks);

}  // namespace tombolo::collectives
