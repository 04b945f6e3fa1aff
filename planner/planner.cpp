#include "planner/planner.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <array>

#include "base/error.h"
#include "planner/explain/left_out.h"
#include "planner/explain/linked_parts.h"
#include "planner/explain/remedies.h"
#include "planner/search/search.h"
#include "planner/strategies/strategies.h"

namespace tombolo::planner {

namespace {

void check_job(const Job& job, const PlanOptions& options) {
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
  one.sequence_parallel &= job.tensor != 0;  // where it is open, it goes with those that are greater than 1
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
  if (options.may_leave_out && options.strategy != Strategy::kFlashFlex &&
      options.strategy != Strategy::kAuto)
    fail(Cause::kInvalidUsage,
         "strategy {} gives every rank a place; to leave some out, take flashflex or auto",
         strategy_name(options.strategy));
}

constexpr std::array<std::pair<Strategy, std::string_view>, 5> kStrategies{
    {{Strategy::kMegatron, "megatron"},
     {Strategy::kHolmes, "holmes"},
     {Strategy::kPipette, "pipette"},
     {Strategy::kFlashFlex, "flashflex"},
     {Strategy::kAuto, "auto"}}};

/// What the prediction assumes.
void note_conditions(const SearchContext& context, Plan& plan) {
  if (const auto kind = context.view.shared_kind())
    plan.notes.push_back(fmt::format("shared routing: everything over {}, the best kind that all ranks share",
                                     topology::nic_kind_name(*kind)));
  bool unknown = false;
  for (const Slot& slot : context.slots)
    unknown |= context.view.host(slot.host).devices[static_cast<std::size_t>(slot.device)].memory_bytes <= 0;
  if (unknown)
    plan.notes.push_back(
        "the cluster file does not say how much memory every device has: that was not checked");
  if (context.view.cluster().emulated) plan.notes.push_back("the cluster is emulated");
}

void explain(const SearchContext& context, Plan& plan, std::size_t layouts, std::size_t fitting,
             std::size_t simulated, bool inside_kinds) {
  const Job& job = plan.job;
  plan.notes.push_back(
      fmt::format("{}, {} of them per replica: the fastest of the {} layouts that "
                  "fit ({} divide; {} simulated, the others cannot be faster by their compute alone)",
                  layout_text(job), plan.micro_batches(), fitting, layouts, simulated));
  if (context.options.strategy == Strategy::kHolmes) {
    const Placement placement =
        place_by_nic_kind(context.kinds_view, context.slots, {job.pipeline, job.data, job.tensor});
    std::vector<std::string> spans;
    int first = 0;
    for (const auto& span : placement.spans) {
      const std::string stages = span.stages == 1
                                     ? fmt::format("stage {}", first)
                                     : fmt::format("stages {}-{}", first, first + span.stages - 1);
      const auto kind = island_kind(context.kinds_view, context.slots, span.cluster);
      spans.push_back(fmt::format("{} ({}, {:.3g} GFLOP/s) {}", span.cluster, topology::nic_kind_name(kind),
                                  span.speed / 1e9, stages));
      first += span.stages;
    }
    plan.notes.push_back(
        fmt::format("islands by NIC kind, layers by attained speed: {}", fmt::join(spans, "; ")));
    if (!inside_kinds)
      plan.notes.push_back(
          "a gradient group spans islands of different NIC kinds: no layout that fits avoids it");
  } else {
    plan.notes.push_back(
        "ranks in launcher order (rank r: stage r / data, replica r % data), equal layers: Megatron's "
        "default");
  }
  note_conditions(context, plan);
}

/// `megatron` and `holmes`: every layout that divides, by its own rule; nothing where all take as long as the
/// context's limit.
std::optional<Plan> grid_plan(const SearchContext& context, const Job& job) {
  Candidates found = enumerate(context, job);
  std::vector<Candidate>& candidates = found.all;
  if (candidates.empty())
    fail(Cause::kInvalidUsage, "no layout of {} ranks divides: {}", context.slots.size(),
         fmt::join(found.excluded, "; "));
  const std::size_t layouts = candidates.size();
  if (std::none_of(candidates.begin(), candidates.end(), [](const auto& c) { return c.missing_bytes == 0; }))
    fail_nothing_fits(context, job, candidates);
  std::erase_if(candidates, [](const Candidate& candidate) { return candidate.missing_bytes > 0; });
  const std::size_t fitting = candidates.size();
  // Holmes keeps gradient groups inside one NIC kind wherever some layout that fits does.
  if (context.options.strategy == Strategy::kHolmes &&
      std::any_of(candidates.begin(), candidates.end(), [](const auto& c) { return c.groups_inside_kinds; }))
    std::erase_if(candidates, [](const Candidate& candidate) { return !candidate.groups_inside_kinds; });

  std::stable_sort(candidates.begin(), candidates.end(),
                   [](const Candidate& a, const Candidate& b) { return a.bound < b.bound; });
  Candidate* best = nullptr;
  std::string unlinked;  // why a layout cannot talk
  std::size_t simulated = 0;
  for (Candidate& candidate : candidates) {
    Prediction& prediction = candidate.plan.prediction;
    // By more than rounding, so that equal layouts are decided by their order alone.
    const double limit = best ? best->plan.prediction.step_seconds * (1 - 1e-9) : context.limit_seconds;
    if (candidate.bound >= limit) continue;
    const auto simulation = simulate_if_linked(candidate.plan, context.view, limit, &unlinked);
    ++simulated;
    if (!simulation) continue;
    prediction.step_seconds = simulation->step_seconds;
    prediction.bubble_fraction = simulation->bubble_fraction;
    best = &candidate;
  }
  if (!best && context.limit_seconds < Scorer::kNever) return std::nullopt;
  if (!best) fail_nothing_linked(context, unlinked);
  Plan plan = std::move(best->plan);
  explain(context, plan, layouts, fitting, simulated, best->groups_inside_kinds);
  return plan;
}

/// Of a search that found nothing, what would make it find something is what the grids say.
std::optional<Plan> searched_plan(const SearchContext& context, const Job& job) {
  std::optional<Plan> plan = context.options.strategy == Strategy::kPipette ? pipette_plan(context, job)
                                                                            : flashflex_plan(context, job);
  if (plan) {
    note_conditions(context, *plan);
    return plan;
  }
  if (context.limit_seconds < Scorer::kNever) return std::nullopt;
  PlanOptions options = context.options;
  options.strategy = Strategy::kHolmes;
  grid_plan({context.view, context.kinds_view, context.slots, options}, job);
  fail(Cause::kInvalidUsage,
       "strategy {} finds no plan that fits; holmes does. Take that, or leave more open (pipeline, data, "
       "tensor, "
       "micro-batch)",
       strategy_name(context.options.strategy));
}

}  // namespace

std::vector<Saving> savings_of(const PlanOptions& options, const Job& job, std::size_t replicas) {
  std::vector<Saving> savings;
  for (Saving saving : options.savings.empty() ? std::vector{job.saving()} : options.savings) {
    saving.shard_optimizer &= replicas > 1;
    if (std::ranges::find(savings, saving) == savings.end()) savings.push_back(saving);
  }
  return savings;
}

std::optional<Plan> plan_by(Strategy strategy, const SearchContext& context, const Job& job) {
  PlanOptions options = context.options;
  options.strategy = strategy;
  const SearchContext one{context.view, context.kinds_view, context.slots, options, context.limit_seconds};
  return strategy == Strategy::kMegatron || strategy == Strategy::kHolmes ? grid_plan(one, job)
                                                                          : searched_plan(one, job);
}

std::string_view strategy_name(Strategy strategy) noexcept {
  for (const auto& [one, name] : kStrategies)
    if (one == strategy) return name;
  return "?";
}

std::optional<Strategy> strategy_from_name(std::string_view name) noexcept {
  for (const auto& [one, its_name] : kStrategies)
    if (its_name == name) return one;
  return std::nullopt;
}

Plan make_plan(const topology::ClusterFile& cluster, const Job& job, const PlanOptions& wanted) {
  check_job(job, wanted);
  PlanOptions options = wanted;
  options.uneven_replicas &= job.framework != Framework::kTombolo;
  const ClusterView all(cluster, "per-peer", {});
  const std::vector<Slot> slots = launcher_slots(all, options.rank_hosts);
  std::vector<std::string> hosts;
  for (const Slot& slot : slots) {
    const std::string& name = all.host(slot.host).name;
    if (std::find(hosts.begin(), hosts.end(), name) == hosts.end()) hosts.push_back(name);
  }
  const ClusterView view(cluster, options.routing, hosts);
  const SearchContext context{view, all, slots, options};

  Plan plan = options.strategy == Strategy::kAuto ? auto_plan(context, job)
                                                  : plan_by(options.strategy, context, job).value();
  if (!plan.left_out.empty()) {
    for (std::string& sentence : why_left_out(context, plan)) plan.notes.push_back(std::move(sentence));
    // Those that are left may all share a better kind of NIC.
    if (options.routing == "shared")
      plan.prediction.step_seconds = simulate(plan, cluster, {.spans = false}).step_seconds;
  }
  plan.prediction.tokens_per_second =
      static_cast<double>(job.global_batch) * job.model.context / plan.prediction.step_seconds;
  plan.groups = groups_of(plan, view);
  return plan;
}

}  // namespace tombolo::planner
