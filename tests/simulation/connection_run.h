// One simulated run of a plan: two processes with a router each, a connection between them, and what must be
// true of it.
#pragma once

#include <cstdint>
#include <string>

#include "tests/simulation/plan.h"

namespace tombolo::simulation {

struct Verdict {
  std::string wrong;  ///< what must not be; empty where all is well
  bool connected = false, failed = false;
  std::uint64_t messages = 0, breaks = 0, rejoins = 0, replayed = 0, turns = 0;
  double seconds = 0;  ///< of virtual time
  bool ok() const noexcept { return wrong.empty(); }
};

struct RunOptions {
  bool log = false;  ///< print what both ends log, with the virtual time
};

/// Runs the plan. What is checked: every byte once and in order; a plan that can be survived is survived; a
/// send that is done was received, unless an end failed; both ends of a connection that cannot go on learn
/// it; nobody waits for ever; nothing is written to buffers whose requests are over; no descriptor is left.
Verdict run_connection(const Plan& plan, const RunOptions& options = {});

}  // namespace tombolo::simulation
