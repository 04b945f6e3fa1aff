// Makes small changes to a plan, as long as a step gets shorter.
#pragma once

#include <cstdint>

#include "planner/search/layout.h"

namespace tombolo::planner {

/// Applies changes to `start` that make a step shorter, until none does or `most` layouts have been
/// simulated: exchange two ranks, move a layer, a micro-batch or a whole stage, use other rows per
/// micro-batch, another schedule or recomputation.
Plan improved_plan(const SearchContext& context, const Job& job, const Plan& start, std::int64_t most);

}  // namespace tombolo::planner
