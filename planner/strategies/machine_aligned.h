// The search that the FlashFlex strategy is compared with; it is not in the list of strategies.
#pragma once

#include <optional>

#include "planner/search/layout.h"

namespace tombolo::planner {

/// Uses one tensor degree per type of device, whole hosts divided among pipelines in every way, layers by
/// speed, and equal rows, in micro-batches of one row unless the job says otherwise.
std::optional<Plan> machine_aligned_plan(const SearchContext& context, const Job& job);

}  // namespace tombolo::planner
