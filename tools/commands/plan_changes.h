// tools/commands/ owns the subcommands of `tombolo`, one file each, which tools/cli/command.h describes. This
// header holds what two files share: the output of `tombolo plan` about changes of the cluster (--what-if),
// and changes from a running plan (--running).
#pragma once

#include <string>
#include <vector>

#include "base/json.h"
#include "planner/explain/replan.h"
#include "tools/reports/plan_page.h"

namespace tombolo::tools {

/// One --what-if: a changed cluster, planned anew.
struct Scenario {
  std::string text;     ///< as given
  std::string problem;  ///< why there is no plan; empty where there is one
  planner::Plan plan;
  double unchanged_step =
      0;                   ///< step seconds of today's plan on the changed cluster; 0 = it cannot run there
  planner::Moving moving;  ///< from today's plan to `plan`
};

/// Plans each change as `options` say. A change that names an unknown host or cluster throws kInvalidUsage;
/// one after which no plan fits becomes a scenario with a problem.
std::vector<Scenario> plan_scenarios(const std::vector<std::string>& changes, const planner::Plan& today,
                                     const topology::ClusterFile& cluster, const planner::Job& job,
                                     const planner::PlanOptions& options);
std::string describe_scenarios(const planner::Plan& today, const std::vector<Scenario>& scenarios);
/// The scenarios as a list of objects: "what_if", and "problem" or "step_seconds", "speedup",
/// "unchanged_step_seconds", "moved_bytes", "moving_seconds", "checkpoint_bytes".
Json scenarios_json(const planner::Plan& today, const std::vector<Scenario>& scenarios);

/// The scenarios as the report's page shows them.
std::vector<PageScenario> page_scenarios(const std::vector<Scenario>& scenarios);

/// Says what changing from the running plan takes, or why that plan stays.
std::string describe_replan(const planner::Replan& replan, double steps);
/// The replan as an object: "plan", "keep", "moved_bytes", "checkpoint_bytes", "moving_seconds", "moves" (a
/// list of "from", which is absent for the checkpoint, "to", "bytes", "seconds"); where the running plan can
/// run, "running_step_seconds" and "steps_to_pay", else "why_not".
Json replan_json(const planner::Replan& replan);

}  // namespace tombolo::tools
