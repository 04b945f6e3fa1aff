// One step, rank by rank.
#pragma once

#include <string>
#include <vector>

#include "planner/simulator.h"

namespace tombolo::tools {

/// Not computing.
bool is_transfer(const planner::Span& span) noexcept;

/// One step on a scale of `seconds`: per rank a row of computing and a row of network. `label` is read to
/// people who cannot see it.
std::string draw_timeline(const planner::Plan& plan, const std::vector<planner::Span>& spans, double seconds,
                          const std::string& label);

}  // namespace tombolo::tools
