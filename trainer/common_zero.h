// One time axis for ranks whose clocks differ.
#pragma once

#include "base/clock.h"
#include "collectives/engine/communicator.h"

namespace tombolo::trainer {

/// Collective: this rank's time at which rank 0's clock read what all take for zero. Every rank in turn asks
/// rank 0 for the time, some times over; of these the quickest answer counts, which is off by less than half
/// its round trip. Clocks may drift apart afterwards. Throws what a communicator throws.
TimePoint common_zero(collectives::Communicator& world);

}  // namespace tombolo::trainer
