// Every way in which few ranks can be divided into pipelines.
#pragma once

#include <vector>

#include "planner/search/search.h"

namespace tombolo::planner {

/// Ranks that share layers.
using RankGroup = std::vector<int>;
/// The groups of each pipeline, in the order of their layers.
using Structure = std::vector<std::vector<RankGroup>>;

/// A number for each launcher rank; exchangeable ranks, those of like devices of one host, have equal
/// numbers.
std::vector<int> exchangeable_classes(const SearchContext& context);

/// Every division of the ranks into groups inside of hosts, and of these into ordered pipelines, that job and
/// options allow; where devices may be left out, also of fewer ranks. Of structures that differ by
/// exchangeable ranks only, one.
std::vector<Structure> structures_of(const SearchContext& context, const Job& job,
                                     const std::vector<int>& classes);

}  // namespace tombolo::planner
