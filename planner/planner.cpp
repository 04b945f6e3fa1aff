#include "planner/planner.h"

#include <algorithm>

#include "base/error.h"
#include "planner/explain/left_out.h"
#include "planner/search/search.h"
#include "planner/strategies/strategy.h"

namespace tombolo::planner {

namespace {

void check_job(const Job& job, const PlanOptions& options, const Strategy& strategy) {
  job.model.check();
  if (job.global_batch <= 0)
    fail(Cause::kInvalidUsage, "the batch is {} rows per step, expected a whole number > 0",
         job.global_batch);
  for (const auto& [name, value] :
       {std::pair("micro-batch", job.micro_batch), std::pair("pipeline", job.pipeline),
        std::pair("data", job.data), std::pair("tensor", job.tensor)})
    if (value < 0) fail(Cause::kInvalidUsage, "{} is {}, expected > 0, or 0 to have it chosen", name, value);
  Job one = job;
  one.tensor = std::max(1, job.tensor);
  // where the degree is open, this applies to degrees greater than 1
  one.sequence_parallel &= job.tensor != 0;
  one.check();
  for (const auto& [schedule, chunks] : options.schedules) {
    one.schedule = schedule;
    one.chunks = chunks;
    one.check();
  }
  for (const Saving& saving : options.savings) {
    one = job;
    one.tensor = std::max(1, job.tensor);
    one.sequence_parallel &= job.tensor != 0;
    one.set(saving);
    one.check();
  }
  if (!(options.alpha > 0) || options.alpha > 10)
    fail(Cause::kInvalidUsage, "alpha is {}, expected a number above 0, about 1", options.alpha);
  if (options.may_leave_out && !strategy.capabilities.leaves_devices_out)
    fail(Cause::kInvalidUsage, "strategy {} gives every rank a place; to leave some out, take {}",
         strategy.name, alternatives(strategy_names({&StrategyCapabilities::leaves_devices_out})));
}

}  // namespace

std::vector<Saving> savings_of(const PlanOptions& options, const Job& job, std::size_t replicas) {
  std::vector<Saving> savings;
  for (Saving saving : options.savings.empty() ? std::vector{job.saving()} : options.savings) {
    if (replicas < 2) saving.sharding = Sharding::kNone;
    if (std::ranges::find(savings, saving) == savings.end()) savings.push_back(saving);
  }
  return savings;
}

Plan make_plan(const topology::ClusterFile& cluster, const Job& job, const PlanOptions& wanted,
               const Strategy& strategy) {
  check_job(job, wanted, strategy);
  PlanOptions options = wanted;
  options.uneven_replicas &= job.framework != Framework::kTombolo;
  const ClusterView all(cluster, "per-peer", {});
  const std::vector<LauncherSlot> slots = launcher_slots(all, options.rank_hosts);
  std::vector<std::string> hosts;
  for (const LauncherSlot& slot : slots) {
    const std::string& name = all.host(slot.host).name;
    if (std::find(hosts.begin(), hosts.end(), name) == hosts.end()) hosts.push_back(name);
  }
  const ClusterView view(cluster, options.routing, hosts);
  const SearchContext context{view, all, slots, options};

  Plan plan = plan_by(strategy, context, job).value();
  if (!plan.left_out.empty()) {
    for (std::string& sentence : why_left_out(context, plan)) plan.notes.push_back(std::move(sentence));
    // The hosts that still take part may all share a better kind of NIC.
    if (options.routing == "shared")
      plan.prediction.step_seconds = simulate(plan, cluster, {.spans = false}).step_seconds;
  }
  plan.prediction.tokens_per_second =
      static_cast<double>(job.global_batch) * job.model.context / plan.prediction.step_seconds;
  plan.groups = groups_of(plan, view);
  return plan;
}

Plan make_plan(const topology::ClusterFile& cluster, const Job& job, const PlanOptions& options) {
  return make_plan(cluster, job, options, strategy_named(options.strategy));
}

}  // namespace tombolo::planner
