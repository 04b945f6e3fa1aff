// One simulated run of a plan: two processes with a router each, a connection between them, and what must be
// true of it.
#pragma once

#include "tests/simulation/checks/verdict.h"
#include "tests/simulation/plans/plan.h"

namespace tombolo::simulation {

/// Runs the plan. What is checked: every byte once and in order; a plan that can be survived is survived; a
/// send that is done was received, unless the receiving end failed and says so; both ends of a connection
/// that cannot go on learn it in time; connecting and closing keep their deadlines; nobody waits for ever, or
/// spins; nothing is written to buffers whose requests are over; no descriptor and no memory is left.
Verdict run_connection(const Plan& plan, const RunOptions& options = {});

}  // namespace tombolo::simulation
