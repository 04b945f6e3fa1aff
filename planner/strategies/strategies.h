// The strategies that search beyond one rule of placement. Each returns a complete plan but for its groups,
// scored by the one simulator, or nothing where it finds none that fits in memory.
#pragma once

#include <optional>

#include "planner/search/layout.h"

namespace tombolo::planner {

/// By a strategy other than auto; nothing where no plan takes less than the context's limit. Throws
/// kInvalidUsage where none divides, fits or can talk, saying what would help.
std::optional<Plan> plan_by(Strategy strategy, const SearchContext& context, const Job& job);

/// The best of the others, then better still; of few ranks the best of all layouts. Of more than
/// `most_at_once` ranks a part of the cluster, planned and repeated, is one of the others, and strategies
/// only say whether they are faster than what is known by then.
Plan auto_plan(const SearchContext& context, const Job& job, std::size_t most_at_once = 1024);

/// Pipette (arXiv 2405.18093): every grid of stages, replicas, tensor degree and micro-batch, equal stages;
/// workers take their places by what the links between them attain.
std::optional<Plan> pipette_plan(const SearchContext& context, const Job& job);

/// FlashFlex (arXiv 2409.01143): replicas of different shape. Each type of host has its own tensor degree;
/// hosts, or equal parts of them, are divided among pipelines; layers go by speed within memory, rows by the
/// pipelines' speed. Candidates are ranked by an estimate, then by a closed form, and the best are simulated.
std::optional<Plan> flashflex_plan(const SearchContext& context, const Job& job);

/// The search that FlashFlex has to beat: one tensor degree per type of device, whole hosts divided among
/// pipelines in every way, layers by speed, equal rows; micro-batches of one row unless the job says
/// otherwise.
std::optional<Plan> machine_aligned_plan(const SearchContext& context, const Job& job);

/// Moves from `start` on that make a step shorter, until none does or `most` layouts have been simulated:
/// exchange two ranks, move a layer or a micro-batch, other rows per micro-batch, schedule or recomputation.
Plan improved_plan(const SearchContext& context, const Job& job, const Plan& start, std::int64_t most);

/// How many layouts exhaustive_plan() would look at, at most; infinite where it cannot (more than 6 ranks).
double layouts_in_all(const SearchContext& context, const Job& job);

/// The best of all layouts: every division of the ranks into groups inside of hosts, of these into ordered
/// pipelines, every split of the layers and of the rows, all micro-batches, schedules and recomputations
/// that the job leaves open. Layouts that differ by exchangeable devices only, and those whose lower bound is
/// no better than what is known (`limit` seconds to begin with), are left out.
std::optional<Plan> exhaustive_plan(const SearchContext& context, const Job& job, double limit);

}  // namespace tombolo::planner
