// What is simulated: which layer of the product the faults lie beneath, and plans of any of them.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <variant>

#include "tests/simulation/checks/verdict.h"
#include "tests/simulation/plans/collective_plan.h"
#include "tests/simulation/plans/plan.h"
#include "tests/simulation/plans/plugin_plan.h"

namespace tombolo::simulation {

enum class Under {
  kConnection,  ///< two owners post messages to a connection
  kPlugin,      ///< NCCL's calls of the net plugin
  kCollectives  ///< communicators of several ranks
};
/// "connection", ...
const char* name_of(Under under);

/// By Under.
using AnyPlan = std::variant<Plan, PluginPlan, CollectivePlan>;

AnyPlan draw_plan(Under under, std::uint64_t seed, Over over = Over::kTcp);
/// Reads what encode() writes for a plan beneath that.
AnyPlan decode_plan(Under under, std::string_view text, const std::string& source);
std::string encode(const AnyPlan& plan);
std::string describe(const AnyPlan& plan);
Verdict run_plan(const AnyPlan& plan, const RunOptions& options = {});

}  // namespace tombolo::simulation
