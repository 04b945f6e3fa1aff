// One simulated run beneath the NCCL plugin's contract: two processes call the plugin's functions as NCCL
// does.
#pragma once

#include "tests/simulation/checks/verdict.h"
#include "tests/simulation/plans/plugin_plan.h"

namespace tombolo::simulation {

/// Runs the plan. What is checked: every message arrives whole, once, in posting order and with its real size
/// at both ends; what can be survived is survived; a send that is done was received, or the receiver got an
/// error; no call but a close takes any virtual time, and a close a bounded time; where an end is gone, the
/// other's calls fail in bounded time, and the reason is logged; memory is left alone once it is
/// deregistered; nothing is left after finalize.
Verdict run_plugin(const PluginPlan& plan, const RunOptions& options = {});

}  // namespace tombolo::simulation
