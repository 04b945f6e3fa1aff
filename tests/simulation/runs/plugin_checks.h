// What must be true of a simulated connection of NCCL's once both its ends have closed. Pure functions: each
// returns what is wrong, or nothing.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "base/clock.h"
#include "tests/simulation/plans/plugin_plan.h"
#include "tests/simulation/runs/plugin_end.h"

namespace tombolo::simulation {

/// What is known of the network and of the processes.
struct PluginFacts {
  std::optional<TimePoint> terminal;  ///< when a fault struck after which no connection can go on
  TimePoint last_cut{};               ///< when a fault last cut a stream, or silence last ended
  bool killed[2] = {false, false};    ///< by host
};

/// Nothing writes to a buffer whose request is over.
std::string check_buffers(const PluginEnd& end);
std::string check_comm(const PluginEnd& sender, const PluginEnd& receiver, const PluginPlan& plan,
                       const PluginFacts& facts);

}  // namespace tombolo::simulation
