// The best of all layouts of few ranks.
#pragma once

#include <optional>

#include "planner/search/layout.h"

namespace tombolo::planner {

/// How many layouts exhaustive_plan() would look at, at most; infinite where it cannot (more than 6 ranks).
double layouts_in_all(const SearchContext& context, const Job& job);

/// The best of all layouts: every division of the ranks into groups inside of hosts, of these into ordered
/// pipelines, every split of the layers and of the rows, all micro-batches, schedules and recomputations
/// that the job leaves open. Layouts that differ by exchangeable devices only, and those whose lower bound is
/// no better than what is known (`limit` seconds to begin with), are left out.
std::optional<Plan> exhaustive_plan(const SearchContext& context, const Job& job, double limit);

}  // namespace tombolo::planner
