// What the devices of a run could do at most.
#pragma once

#include "collectives/engine/communicator.h"

namespace tombolo::trainer {

/// The cores that a rank's `threads` can have where `ranks` share the `cores` of a host.
double usable_cores(int threads, int cores, int ranks) noexcept;

/// Collective over `world` (null: one rank): the sum of what each rank's device can do, FLOP/s. `own`: of
/// this rank's GPU, or of one core; 0 = unknown, and then the sum is 0 too. `threads`: of a rank on the CPU;
/// 0 on a GPU.
double total_peak(double own, int threads, collectives::Communicator* world);

}  // namespace tombolo::trainer
