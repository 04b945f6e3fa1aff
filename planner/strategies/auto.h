// The strategy that takes the best plan of all others and improves it.
#pragma once

#include <cstddef>

#include "planner/search/layout.h"

namespace tombolo::planner {

/// The best plan of the other strategies, then improved by moves; for few ranks the best of all layouts. For
/// more than `most_at_once` ranks, a part of the cluster that is planned and repeated is one of the others,
/// and strategies need only say whether they are faster than what is known by then.
Plan auto_plan(const SearchContext& context, const Job& job, std::size_t most_at_once = 1024);

}  // namespace tombolo::planner
