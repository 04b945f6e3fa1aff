// Makes a plan that goes wrong short enough to read.
#pragma once

#include <cstdint>

#include "tests/simulation/plans/plan.h"
#include "tests/simulation/runs/connection_run.h"

namespace tombolo::simulation {

struct Shrunk {
  Plan plan;             ///< goes wrong, too; the given one where that goes well
  bool complete = true;  ///< nothing more can be left out
};

/// Turns that all attempts together take before shrink() begins no other: a minute or so.
inline constexpr std::uint64_t kMostTurnsToShrink = 50'000'000;

/// Leaves out faults and messages and simplifies settings as long as the plan still goes wrong. Each attempt
/// runs with some seeds, since another plan takes other turns.
Shrunk shrink(const Plan& plan, const RunOptions& options = {},
              std::uint64_t most_turns = kMostTurnsToShrink);

}  // namespace tombolo::simulation
