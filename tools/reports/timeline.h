// Drawings of the timeline of one training step.
#pragma once

#include <string>
#include <vector>

#include "planner/simulate/simulator.h"

namespace tombolo::tools {

/// Whether a span is a transfer over the network, not computing.
bool is_transfer(const planner::Span& span) noexcept;

/// The first rank of each tensor-parallel group; only these have spans.
std::vector<std::size_t> first_ranks(const planner::Plan& plan);

/// A name such as "rank 3 on a1", or "ranks 4-7 on a1" where `rank` is the first of a tensor-parallel group;
/// of frameworks other than the bundled trainer, which number ranks in their own way, "a1, devices 0-3".
std::string group_name(const planner::Plan& plan, std::size_t rank);

/// Whether draw_timeline() joins spans of these ranks, since they are many thousand: each mark then stands
/// for a share of the step, and the stripes show how the time is divided.
bool joins_spans(const planner::Plan& plan, const std::vector<std::size_t>& ranks,
                 const std::vector<planner::Span>& spans);

/// Draws one step on a scale of `seconds`, with a row of computing and a row of network for each of `ranks`.
/// `label` is the description for
/// screen readers.
std::string draw_timeline(const planner::Plan& plan, const std::vector<std::size_t>& ranks,
                          const std::vector<planner::Span>& spans, double seconds, const std::string& label);

}  // namespace tombolo::tools
