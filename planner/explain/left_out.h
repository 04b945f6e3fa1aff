// Why a plan leaves devices idle.
#pragma once

#include <string>
#include <vector>

#include "planner/search/search.h"

namespace tombolo::planner {

/// Returns a sentence for each type of device of which some are in Plan::left_out: how many, on which hosts,
/// and how long one layer would take there compared with the plan's slowest stage.
std::vector<std::string> why_left_out(const SearchContext& context, const Plan& plan);

}  // namespace tombolo::planner
