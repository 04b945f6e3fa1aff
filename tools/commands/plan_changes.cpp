#include "tools/commands/plan_changes.h"

#include <fmt/format.h>

#include <nlohmann/json.hpp>

#include "base/error.h"
#include "base/units.h"
#include "planner/explain/what_if.h"
#include "planner/simulate/simulator.h"
#include "tools/cli/table.h"

namespace tombolo::tools {
namespace {

std::string moving_text(const planner::Moving& moving) {
  if (moving.bytes == 0) return "nothing moves";
  std::string text = format_size(moving.bytes);
  if (moving.seconds > 0) text += fmt::format(", {}", format_seconds(moving.seconds));
  if (moving.checkpoint_bytes > 0)
    text += fmt::format(", {} of it from the checkpoint", format_size(moving.checkpoint_bytes));
  return text;
}

void add_moving(const planner::Moving& moving, Json& to) {
  to["moved_bytes"] = moving.bytes;
  to["checkpoint_bytes"] = moving.checkpoint_bytes;
  to["moving_seconds"] = moving.seconds;
}

}  // namespace

std::vector<Scenario> plan_scenarios(const std::vector<std::string>& changes, const planner::Plan& today,
                                     const topology::ClusterFile& cluster, const planner::Job& job,
                                     const planner::PlanOptions& options) {
  std::vector<Scenario> scenarios;
  for (const std::string& text : changes) {
    Scenario scenario;
    scenario.text = text;
    const topology::ClusterFile changed = planner::with_changes(cluster, planner::parse_changes(text));
    planner::PlanOptions here = options;
    std::erase_if(here.rank_hosts,
                  [&](const std::string& host) { return changed.find_host(host) == nullptr; });
    try {
      scenario.plan = planner::make_plan(changed, job, here);
      scenario.moving = planner::moving_between(today, scenario.plan, changed);
    } catch (const Error& error) {
      scenario.problem = error.what();
    }
    try {
      scenario.unchanged_step = planner::simulate(today, changed, {.spans = false}).step_seconds;
    } catch (const Error&) {
      // The present plan needs a host that the change removes.
    }
    scenarios.push_back(std::move(scenario));
  }
  return scenarios;
}

std::string describe_scenarios(const planner::Plan& today, const std::vector<Scenario>& scenarios) {
  Table table({"what if", "today's plan", "planned anew", "against today", "as", "moves"});
  const double now = today.prediction.step_seconds;
  table.add({"(as it is)", format_seconds(now), format_seconds(now), "1.00x", today.shape(), "-"});
  std::string problems;
  for (const Scenario& scenario : scenarios) {
    const std::string kept =
        scenario.unchanged_step > 0 ? format_seconds(scenario.unchanged_step) : "cannot run";
    if (!scenario.problem.empty()) {
      table.add({scenario.text, kept, "no plan", "-", "-", "-"});
      problems += fmt::format("\"{}\": {}\n", scenario.text, scenario.problem);
      continue;
    }
    const double then = scenario.plan.prediction.step_seconds;
    table.add({scenario.text, kept, format_seconds(then), fmt::format("{:.2f}x", now / then),
               scenario.plan.shape(), moving_text(scenario.moving)});
  }
  return table.text(terminal_width()) + problems;
}

Json scenarios_json(const planner::Plan& today, const std::vector<Scenario>& scenarios) {
  Json list = Json::array();
  for (const Scenario& scenario : scenarios) {
    Json one;
    one["what_if"] = scenario.text;
    if (scenario.unchanged_step > 0) one["unchanged_step_seconds"] = scenario.unchanged_step;
    if (!scenario.problem.empty()) {
      one["problem"] = scenario.problem;
    } else {
      one["step_seconds"] = scenario.plan.prediction.step_seconds;
      one["speedup"] = today.prediction.step_seconds / scenario.plan.prediction.step_seconds;
      add_moving(scenario.moving, one);
    }
    list.push_back(std::move(one));
  }
  return list;
}

std::vector<PageScenario> page_scenarios(const std::vector<Scenario>& scenarios) {
  std::vector<PageScenario> shown;
  for (const Scenario& one : scenarios)
    shown.push_back({one.text, one.problem, one.unchanged_step, one.plan.prediction.step_seconds});
  return shown;
}

Json replan_json(const planner::Replan& replan) {
  Json all{{"plan", replan.plan.to_json()}, {"keep", replan.keep}};
  if (replan.running_step > 0) {
    all["running_step_seconds"] = replan.running_step;
    all["steps_to_pay"] = replan.steps_to_pay;
  } else {
    all["why_not"] = replan.why_not;
  }
  add_moving(replan.moving, all);
  all["moves"] = Json::array();
  for (const auto& transfer : replan.moving.transfers) {
    Json move{{"to", transfer.to}, {"bytes", transfer.bytes}, {"seconds", transfer.seconds}};
    if (!transfer.from.empty()) move["from"] = transfer.from;
    all["moves"].push_back(std::move(move));
  }
  return all;
}

std::string describe_replan(const planner::Replan& replan, double steps) {
  const double step = replan.plan.prediction.step_seconds;
  if (replan.keep)
    return fmt::format(
        "The running plan goes on: {} per step here, and nothing that is faster pays for its moving within "
        "{:.0f} "
        "steps.\n",
        format_seconds(step), steps);
  std::string text;
  if (replan.running_step > 0) {
    text = fmt::format(
        "The running plan would take {} per step here; this one takes {}, and has paid for its moving "
        "after {:.0f} steps.\n",
        format_seconds(replan.running_step), format_seconds(step), replan.steps_to_pay);
  } else {
    text = fmt::format("The running plan cannot go on: {}\n", replan.why_not);
  }
  text += fmt::format("What moves: {}.\n", moving_text(replan.moving));
  Table table({"from", "to", "bytes", "alone"});
  for (const auto& transfer : replan.moving.transfers)
    table.add({transfer.from.empty() ? "checkpoint" : transfer.from, transfer.to, format_size(transfer.bytes),
               transfer.seconds > 0 ? format_seconds(transfer.seconds) : "-"});
  return replan.moving.transfers.empty() ? text : text + table.text(terminal_width());
}

}  // namespace tombolo::tools
