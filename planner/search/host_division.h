// Hosts, whole or in equal slices, divided among pipelines.
#pragma once

#include <vector>

#include "planner/search/shape_costs.h"

namespace tombolo::planner {

/// Every type of host has its own tensor degree; whole hosts, or equal slices of them, are divided among
/// pipelines in every way (few) or in turns, by type and by speed (many). Layers and rows follow speed and
/// memory. Ranked by an estimate from speeds and slowest links alone; those that fit, the best first. With
/// `aligned` whole hosts and equal rows only, in micro-batches of one row unless the job says otherwise.
std::vector<Layout> host_divisions(const SearchContext& context, const Job& job, bool aligned);

}  // namespace tombolo::planner
