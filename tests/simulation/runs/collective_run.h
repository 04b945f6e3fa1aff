// One simulated run beneath the engine's collectives: a process per rank.
#pragma once

#include "tests/simulation/checks/verdict.h"
#include "tests/simulation/plans/collective_plan.h"

namespace tombolo::simulation {

/// Runs the plan. What is checked: every result and message against a reference; what can be survived is
/// survived; where a rank fails, every other one that lives completes its part or fails too, in bounded
/// virtual time and with a fitting cause; memory is left alone once a call has returned or thrown; nothing is
/// left at the end.
Verdict run_collectives(const CollectivePlan& plan, const RunOptions& options = {});

}  // namespace tombolo::simulation
