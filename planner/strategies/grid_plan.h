// The search of the strategies that take one layout for each grid: every grid that divides, by the strategy's
// rule.
#pragma once

#include <optional>

#include "planner/search/grid.h"

namespace tombolo::planner {

struct GridPlan {
  Plan plan;  ///< with a note of how many layouts were looked at
  bool groups_inside_kinds = true;
};

/// The fastest layout in simulation; nothing where all take as long as the context's limit. Throws
/// kInvalidUsage where none divides, fits or can talk, saying what would help.
std::optional<GridPlan> grid_plan(const SearchContext& context, const Job& job, const GridRule& rule);

}  // namespace tombolo::planner
