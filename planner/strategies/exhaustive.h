// Finds the best of all layouts for a few ranks.
#pragma once

#include <optional>

#include "planner/search/layout.h"

namespace tombolo::planner {

/// The most layouts that exhaustive_plan() would consider; infinite where it cannot search (more than 6
/// ranks).
double layouts_in_all(const SearchContext& context, const Job& job);

/// The best of all layouts: every division of the ranks into groups inside hosts, of these groups into
/// ordered pipelines, every split of the layers and of the rows, and all micro-batches, schedules and
/// recomputations that the job leaves open. Layouts are left out that differ only by exchangeable devices,
/// and those whose lower bound is no better than the best known time (`limit` seconds at first).
std::optional<Plan> exhaustive_plan(const SearchContext& context, const Job& job, double limit);

}  // namespace tombolo::planner
