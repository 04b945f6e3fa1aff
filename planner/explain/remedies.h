// The error message where no plan fits in memory.
//
// This folder explains plans, and changes to them: why a plan leaves devices out, or why there is none
// (remedies, linked_parts, left_out), what a changed cluster would give (what_if), and whether a running plan
// should be replaced (replan).
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "planner/search/grid.h"

namespace tombolo::planner {

/// The layout in words: "pipeline 2, data 4, tensor 8, micro-batches of 1 row".
std::string layout_text(const Job& job);

/// How the error begins that fail_nothing_fits() throws.
inline constexpr std::string_view kNothingFits = "no plan fits in memory";

/// Throws kInvalidUsage naming the rank that lacks least, and what would fit by this rule. Each remedy that
/// it names was tried: another layout, recomputation, a sharded optimizer, more ranks of the same kind, fewer
/// layers.
[[noreturn]] void fail_nothing_fits(const SearchContext& context, const Job& job, const GridRule& rule,
                                    const std::vector<Candidate>& candidates);

}  // namespace tombolo::planner
