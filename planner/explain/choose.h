// Chooses among plans that are predicted to be about as fast.
#pragma once

#include <vector>

#include "planner/search/search.h"

namespace tombolo::planner {

/// The plan to take of some that were ranked (the fastest first, each with its predicted seconds), with
/// Plan::choice. Those within the tolerance of the fastest are simulated with every kind of device and the
/// links of every pair of clusters a fifth slower and faster. Those that are within the tolerance of the best
/// in the mean of these cases too count as equally fast. Of them that one is taken
///  * that keeps links between clusters busy for the shortest, in tenths of the longest,
///  * whose fullest device has at most four fifths of its memory taken, else in twentieths the least,
///  * that has the fewest of: several stages, shared layers, model chunks or postponed gradients,
///  recomputation,
///    uneven layers, replicas that differ, idle devices,
///  * that is the fastest.
/// The reasons are added to its notes. Of more than 1,024 ranks no cases are tried, for they would take
/// minutes.
Plan chosen(const SearchContext& context, std::vector<Plan> ranked, double tolerance);

}  // namespace tombolo::planner
