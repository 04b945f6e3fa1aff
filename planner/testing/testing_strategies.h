// Runs a strategy and checks that its plan is what it says.
#pragma once

#include <fmt/format.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <string>
#include <string_view>

#include "base/error.h"
#include "planner/strategies/strategy.h"
#include "planner/testing/testing_search.h"

namespace tombolo::planner::testing {

/// The plan after it was written to a file and read back.
inline Plan written_and_loaded(Plan plan) {
  // No plan file is of a framework that does not exist; the simulation is that of any but the bundled
  // trainer.
  if (plan.job.framework == Framework::kAny) plan.job.framework = Framework::kMegatron;
  // The process id keeps test programs that run side by side apart.
  const auto path =
      std::filesystem::temp_directory_path() / fmt::format("tombolo-strategy-{}.json", ::getpid());
  plan.save(path);
  Plan again = Plan::load(path);
  std::filesystem::remove(path);
  return again;
}

/// Seconds of a step of that strategy's plan; Scorer::kNever where it has none. Checks that the plan gives
/// what it promises, when it is read back from its file and simulated anew.
inline double seconds_by(const topology::ClusterFile& cluster, const Job& job, std::string_view strategy) {
  PlanOptions options;
  options.strategy = strategy;
  try {
    const Plan plan = make_plan(cluster, job, options);
    EXPECT_NEAR(simulate(written_and_loaded(plan), cluster).step_seconds, plan.prediction.step_seconds,
                1e-9 * plan.prediction.step_seconds);
    return plan.prediction.step_seconds;
  } catch (const Error&) {
    return Scorer::kNever;
  }
}

}  // namespace tombolo::planner::testing
