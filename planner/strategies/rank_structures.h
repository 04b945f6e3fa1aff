// Enumerates every way to divide a few ranks into pipelines.
#pragma once

#include <vector>

#include "planner/search/search.h"

namespace tombolo::planner {

/// Ranks that share layers.
using RankGroup = std::vector<int>;
/// The groups of each pipeline, in the order of their layers.
using Structure = std::vector<std::vector<RankGroup>>;

/// A class number for each launcher rank. Exchangeable ranks, which are those of alike devices of one host,
/// have equal numbers.
std::vector<int> exchangeable_classes(const SearchContext& context);

/// Every division of the ranks into groups inside hosts, and of these into ordered pipelines, that job and
/// options allow; where devices may be left out, also of fewer ranks. Of structures that differ only by
/// exchangeable ranks, one is returned.
std::vector<Structure> structures_of(const SearchContext& context, const Job& job,
                                     const std::vector<int>& classes);

}  // namespace tombolo::planner
