// planner/strategies/ owns the strategies, one file each. A strategy is a record: its name, its help, its
// capabilities, and the function that plans. Help texts, checks, `auto` and tests read the one list of these
// records, so that a strategy is added by a file of its own and a line of the list (docs/extending.md).
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "planner/plan/plan.h"
#include "planner/search/search.h"

namespace tombolo::planner {

struct StrategyCapabilities {
  bool leaves_devices_out = false;      ///< supports PlanOptions::may_leave_out
  bool uneven_replicas = false;         ///< replicas may differ in stages, rows and micro-batches
  bool tensor_degree_per_type = false;  ///< stages on different devices may have different tensor degrees
  /// Whether it ranks by an estimate and simulates few plans. Where a simulation takes long, `auto` runs such
  /// strategies first, because the others may stop at the best time that these have found.
  bool simulates_few = false;
  bool asks_others = false;  ///< combines the other strategies, and so is not run by one that does
};

struct Strategy {
  /// Returns a plan that is complete except for its groups, scored by the simulator; nothing where no plan
  /// that fits takes less than the context's limit. May throw kInvalidUsage where none is divisible, fits or
  /// can communicate.
  using PlanFunction = std::optional<Plan>(const SearchContext& context, const Job& job);

  std::string_view name;  ///< on the command line and in plan files
  std::string_view help;  ///< one or more lines for `tombolo plan --help`
  StrategyCapabilities capabilities;
  PlanFunction* plan = nullptr;
};

/// All strategies, in the order of help texts. PlanOptions names the default.
const std::vector<const Strategy*>& strategies();

/// The strategy of that name. Throws kInvalidUsage naming all strategies.
const Strategy& strategy_named(std::string_view name);

/// Names of the strategies with (or, where `having` is false, without) any of these capabilities, in the
/// list's order.
std::vector<std::string_view> strategy_names(std::vector<bool StrategyCapabilities::*> any_of = {},
                                             bool having = true);

/// Joins names for a sentence: "holmes, megatron or pipette".
std::string alternatives(const std::vector<std::string_view>& names);

/// Adds notes of what the prediction assumes, where the plan lacks them.
void note_conditions(const SearchContext& context, Plan& plan);

/// Plans by a strategy, and notes what the prediction assumes. Nothing where no plan takes less than the
/// context's limit. Throws kInvalidUsage where none is divisible, fits or can communicate, saying what would
/// help.
std::optional<Plan> plan_by(const Strategy& strategy, const SearchContext& context, const Job& job);

}  // namespace tombolo::planner
