// The search that FlashFlex has to beat; not in the list of strategies.
#pragma once

#include <optional>

#include "planner/search/layout.h"

namespace tombolo::planner {

/// One tensor degree per type of device, whole hosts divided among pipelines in every way, layers by speed,
/// equal rows; micro-batches of one row unless the job says otherwise.
std::optional<Plan> machine_aligned_plan(const SearchContext& context, const Job& job);

}  // namespace tombolo::planner
