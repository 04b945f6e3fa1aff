// Checks that the ranks run on the hosts for which their plan was made.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "collectives/engine/communicator.h"
#include "planner/plan/plan.h"

namespace tombolo::trainer {

/// Compares every rank's host, and the engine's routing, with the plan. Returns a warning where all ranks run
/// on one host that the plan does not name, because placement then has no effect. Returns an empty text where
/// everything is as planned, or where the numbers of ranks differ (which the trainer rejects). Throws
/// kInvalidUsage naming the first misplaced rank, its planned and its real host, and what to do; likewise for
/// the routing. `plan_name` is the plan's path, for the messages. Pure.
std::string check_placement(const planner::Plan& plan, std::string_view plan_name,
                            const std::vector<collectives::Member>& members, collectives::Routing routing);

}  // namespace tombolo::trainer
