// One step, rank by rank.
#pragma once

#include <string>
#include <vector>

#include "planner/simulate/simulator.h"

namespace tombolo::tools {

/// Not computing.
bool is_transfer(const planner::Span& span) noexcept;

/// Of the ranks that share a place's layers the first: these have the spans.
std::vector<std::size_t> first_ranks(const planner::Plan& plan);

/// "rank 3 on a1"; where `rank` is the first of several that share layers "ranks 4-7 on a1".
std::string place_name(const planner::Plan& plan, std::size_t rank);

/// One step on a scale of `seconds`: of each of these `ranks` a row of computing and a row of network.
/// `label` is read to people who cannot see it.
std::string draw_timeline(const planner::Plan& plan, const std::vector<std::size_t>& ranks,
                          const std::vector<planner::Span>& spans, double seconds, const std::string& label);

}  // namespace tombolo::tools
