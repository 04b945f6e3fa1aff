// The best of all other strategies, then better still.
#pragma once

#include <cstddef>

#include "planner/search/layout.h"

namespace tombolo::planner {

/// The best of the others, then improved by moves; of few ranks the best of all layouts. Of more than
/// `most_at_once` ranks a part of the cluster, planned and repeated, is one of the others, and strategies
/// only say whether they are faster than what is known by then.
Plan auto_plan(const SearchContext& context, const Job& job, std::size_t most_at_once = 1024);

}  // namespace tombolo::planner
