#include "planner/search/step_times.h"

#include <functional>

#include "base/error.h"
#include "planner/simulate/simulator.h"

namespace tombolo::planner {

std::uint64_t fingerprint(const Plan& plan) {
  std::uint64_t state = 14695981039346656037U;  // FNV-1a, 64 bits at a time
  const auto add = [&](std::uint64_t number) {
    state = (state ^ number) * 1099511628211U;
    state ^= state >> 29U;
  };
  const Job& job = plan.job;
  for (const int number :
       {static_cast<int>(job.schedule), job.chunks, static_cast<int>(job.recompute), job.recompute_layers,
        static_cast<int>(job.sharding), static_cast<int>(job.sequence_parallel), job.expert_parallel})
    add(static_cast<std::uint64_t>(number));
  for (const Pipeline& pipeline : plan.pipelines) {
    add(static_cast<std::uint64_t>(pipeline.rows));
    add(static_cast<std::uint64_t>(pipeline.micro_batch));
    for (const Stage& stage : pipeline.stages) {
      add(static_cast<std::uint64_t>(stage.layers));
      add(static_cast<std::uint64_t>(stage.tensor));
    }
  }
  for (const RankPlacement& rank : plan.ranks) {
    add(std::hash<std::string>{}(rank.host));
    for (const int number : {rank.device, rank.stage, rank.replica, rank.tensor})
      add(static_cast<std::uint64_t>(number));
  }
  return state;
}

std::optional<StepTime> simulate_if_linked(const Plan& plan, const ClusterView& view, double limit,
                                           std::string* why, StepGraph* memory) {
  try {
    const Simulation simulation =
        simulate(plan, view, {.spans = false, .links = false, .limit_seconds = limit, .memory = memory});
    if (simulation.step_seconds >= limit) return std::nullopt;
    return StepTime{simulation.step_seconds, simulation.bubble_fraction};
  } catch (const Error& error) {
    if (error.cause() != Cause::kInvalidUsage) throw;
    if (why && why->empty()) *why = error.what();
    return std::nullopt;
  }
}

std::optional<StepTime> StepTimes::below(double limit, const Plan& plan, const ClusterView& view,
                                         std::string* why) {
  const std::uint64_t number = fingerprint(plan);
  if (const auto found = known_.find(number); found != known_.end()) {
    const Known& known = found->second;
    if (known.step.seconds >= limit) return std::nullopt;
    if (known.whole) return known.step;
  }
  ++simulated_;
  std::string unlinked;
  const auto step = simulate_if_linked(plan, view, limit, &unlinked, &graph_);
  if (!unlinked.empty()) {
    if (why && why->empty()) *why = std::move(unlinked);
    return std::nullopt;
  }
  known_[number] = step ? Known{*step, true} : Known{{limit, 0}, false};
  return step;
}

}  // namespace tombolo::planner
