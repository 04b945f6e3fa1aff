// Makes a plan that goes wrong short enough to read.
#pragma once

#include <cstdint>

#include "tests/simulation/under.h"

namespace tombolo::simulation {

struct Shrunk {
  AnyPlan plan;          ///< goes wrong, too; the given one where that goes well
  bool complete = true;  ///< nothing more can be left out
};

/// Turns that all attempts together take before shrink() begins no other: a minute or so.
inline constexpr std::uint64_t kMostTurnsToShrink = 50'000'000;

/// Takes the reductions of the plan's kind (plans/reduction.h) as long as the plan still goes wrong. Each
/// attempt runs with some seeds, since another plan takes other turns.
Shrunk shrink(const AnyPlan& plan, const RunOptions& options = {},
              std::uint64_t most_turns = kMostTurnsToShrink);

}  // namespace tombolo::simulation
