// The step times that simulations have told, so that no plan is simulated to its end twice however many
// strategies meet it.
#pragma once

#include <cstdint>
#include <limits>
#include <optional>
#include <string>
#include <unordered_map>

#include "planner/plan/cluster_view.h"
#include "planner/plan/plan.h"
#include "planner/simulate/step_graph.h"

namespace tombolo::planner {

/// A number for what a step's time depends on in plans for one job on one cluster. Two plans with the same
/// number are alike but for chances of 2^-64.
std::uint64_t fingerprint(const Plan& plan);

/// What a simulation tells of a plan's step.
struct StepTime {
  double seconds = 0;
  double bubble_fraction = 0;
};

/// Simulates without spans. Nothing where a step takes `limit` seconds or more, or where ranks must
/// communicate whose hosts the cluster file does not link; then `why`, if given and empty, gets the error.
/// `memory` as in SimulationOptions.
std::optional<StepTime> simulate_if_linked(const Plan& plan, const ClusterView& view,
                                           double limit = std::numeric_limits<double>::infinity(),
                                           std::string* why = nullptr, StepGraph* memory = nullptr);

/// Remembers what became of the plans for one job on one view of a cluster. Not thread-safe.
class StepTimes {
 public:
  /// As simulate_if_linked(), which is asked only where it is not known already whether the plan's step takes
  /// less than `limit`.
  std::optional<StepTime> below(double limit, const Plan& plan, const ClusterView& view,
                                std::string* why = nullptr);
  /// How many simulations that took.
  std::int64_t simulated() const noexcept { return simulated_; }

 private:
  struct Known {
    StepTime step;       ///< its seconds are those of the step, or less where it was not simulated to its end
    bool whole = false;  ///< it was
  };
  std::unordered_map<std::uint64_t, Known> known_;  // by fingerprint
  std::int64_t simulated_ = 0;
  StepGraph graph_;  // of the latest simulation
};

}  // namespace tombolo::planner
