// The search of the strategies that take one layout for each grid: it tries every grid that is divisible, by
// the strategy's rule.
#pragma once

#include <optional>

#include "planner/search/grid.h"

namespace tombolo::planner {

struct GridPlan {
  Plan plan;  ///< with a note of how many layouts were considered
  bool groups_inside_kinds = true;
};

/// The layout that is fastest in simulation; nothing where all take as long as the context's limit or longer.
/// Throws kInvalidUsage where none is divisible, fits or can communicate, saying what would help.
std::optional<GridPlan> grid_plan(const SearchContext& context, const Job& job, const GridRule& rule);

}  // namespace tombolo::planner
