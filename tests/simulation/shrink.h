// Makes a plan that goes wrong short enough to read.
#pragma once

#include "tests/simulation/plans/plan.h"
#include "tests/simulation/runs/connection_run.h"

namespace tombolo::simulation {

/// Leaves out faults and messages and simplifies settings as long as the plan still goes wrong. Each attempt
/// runs with some seeds, since another plan takes other turns. Returns the plan itself where it goes well.
Plan shrink(Plan plan, const RunOptions& options = {});

}  // namespace tombolo::simulation
