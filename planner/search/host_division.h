// Divides hosts, whole or in equal slices, among pipelines.
#pragma once

#include <vector>

#include "planner/search/shape_costs.h"

namespace tombolo::planner {

/// Every type of host has its own tensor degree. Whole hosts, or equal slices of them, are divided among
/// pipelines in every way (if they are few), or in turn, by type and by speed (if they are many). Layers and
/// rows follow speed and memory. Returns the layouts that fit, ranked by an estimate from speeds and slowest
/// links alone, the best first. With `aligned` only whole hosts and equal rows are used, in micro-batches of
/// one row unless the job says otherwise.
std::vector<Layout> host_divisions(const SearchContext& context, const Job& job, bool aligned);

}  // namespace tombolo::planner
