// One time axis for ranks whose clocks differ: each rank's offset to the clock of rank 0.
#pragma once

#include "base/clock.h"
#include "collectives/engine/communicator.h"

namespace tombolo::trainer {

/// Collective: returns the zero of the common time axis on this rank's clock. Every rank in turn asks rank 0
/// several times how long ago its zero was, and uses the answer with the shortest round trip; the error is
/// below half of that round trip. Clocks may drift apart afterwards. Throws what a communicator throws.
TimePoint common_time_base(collectives::Communicator& world);

}  // namespace tombolo::trainer
