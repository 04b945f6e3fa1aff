#include "planner/planner.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <array>

#include "base/error.h"
#include "base/units.h"
#include "planner/layer_split.h"
#include "planner/memory.h"
#include "planner/search.h"
#include "planner/strategies.h"

namespace tombolo::planner {

namespace {

/// In a few words, for messages.
std::string layout_text(const Job& job) {
  std::string text = fmt::format("pipeline {}, data {}", job.pipeline, job.data);
  if (job.tensor > 1) text += fmt::format(", tensor {}", job.tensor);
  if (job.schedule != Schedule::kOneForwardOneBackward)
    text += fmt::format(", schedule {}", schedule_name(job.schedule));
  if (job.chunks > 1) text += fmt::format(" of {} chunks", job.chunks);
  if (job.recompute != Recompute::kNone)
    text += fmt::format(", recomputing {}", recompute_name(job.recompute));
  return text + fmt::format(", micro-batches of {} rows", job.micro_batch);
}

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
  if (!(options.alpha > 0) || options.alpha > 10)
    fail(Cause::kInvalidUsage, "alpha is {}, expected a number above 0, about 1", options.alpha);
}

/// The most layers with which this layout would fit, or 0.
int most_layers(const SearchContext& context, const Candidate& candidate) {
  for (int layers = candidate.plan.job.model.layers - 1; layers >= candidate.plan.job.pipeline; --layers) {
    Job smaller = candidate.plan.job;
    smaller.model.layers = layers;
    for (const Candidate& other : enumerate(context, smaller).all)
      if (other.missing_bytes == 0) return layers;
  }
  return 0;
}

[[noreturn]] void fail_nothing_fits(const SearchContext& context, const Job& job,
                                    const std::vector<Candidate>& candidates) {
  const Candidate& closest = *std::min_element(
      candidates.begin(), candidates.end(),
      [](const Candidate& a, const Candidate& b) { return a.missing_bytes < b.missing_bytes; });
  const Plan& plan = closest.plan;
  const RankPlace& place = plan.ranks[static_cast<std::size_t>(closest.missing_rank)];
  const RankMemory& memory = plan.prediction.memory[static_cast<std::size_t>(closest.missing_rank)];
  std::vector<std::string> remedies;
  Job open = job;
  open.pipeline = open.data = open.micro_batch = 0;
  if (job.framework == Framework::kMegatron) open.tensor = 0;
  for (const Candidate& other : enumerate(context, open).all) {
    if (other.missing_bytes > 0) continue;
    remedies.push_back("with " + layout_text(other.plan.job));
    break;
  }
  if (remedies.empty()) {
    if (const int layers = most_layers(context, closest); layers > 0)
      remedies.push_back(fmt::format("with at most {} layers in all", layers));
    else
      remedies.push_back("with a smaller width, context or vocabulary");
    remedies.push_back("on more ranks");
  }
  remedies.push_back(fmt::format("with {} there", format_size(memory.total)));
  fail(Cause::kInvalidUsage,
       "no plan fits in memory. The closest ({}) lacks {} ({} bytes) on "
       "rank {} (host {}, device {}, stage {}), which needs {}: parameters {}, gradients {}, optimizer {}, "
       "activations {}, buffers {}. It would fit {}",
       layout_text(plan.job), format_size(closest.missing_bytes), closest.missing_bytes, closest.missing_rank,
       place.host, place.device, place.stage, format_size(memory.total), format_size(memory.parameters),
       format_size(memory.gradients), format_size(memory.optimizer), format_size(memory.activations),
       format_size(memory.buffers), fmt::join(remedies, ", or "));
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

/// `megatron` and `holmes`: every layout that divides, by its own rule.
Plan grid_plan(const SearchContext& context, const Job& job) {
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
  std::size_t simulated = 0;
  for (Candidate& candidate : candidates) {
    Prediction& prediction = candidate.plan.prediction;
    if (best && candidate.bound >= best->plan.prediction.step_seconds) continue;
    const Simulation simulation = simulate(candidate.plan, context.view, {.spans = false});
    ++simulated;
    prediction.step_seconds = simulation.step_seconds;
    prediction.bubble_fraction = simulation.bubble_fraction;
    // By more than rounding, so that equal layouts are decided by their order alone.
    if (!best || prediction.step_seconds < best->plan.prediction.step_seconds * (1 - 1e-9)) best = &candidate;
  }
  Plan plan = std::move(best->plan);
  explain(context, plan, layouts, fitting, simulated, best->groups_inside_kinds);
  return plan;
}

/// Of a search that found nothing, what would make it find something is what the grids say.
Plan searched_plan(const SearchContext& context, const Job& job) {
  std::optional<Plan> plan = context.options.strategy == Strategy::kPipette ? pipette_plan(context, job)
                                                                            : flashflex_plan(context, job);
  if (plan) {
    note_conditions(context, *plan);
    return std::move(*plan);
  }
  PlanOptions options = context.options;
  options.strategy = Strategy::kHolmes;
  grid_plan({context.view, context.kinds_view, context.slots, options}, job);
  fail(Cause::kInvalidUsage,
       "strategy {} finds no plan that fits; holmes does. Take that, or leave more open (pipeline, data, "
       "tensor, "
       "micro-batch)",
       strategy_name(context.options.strategy));
}

Plan plan_by(Strategy strategy, const SearchContext& context, const Job& job) {
  PlanOptions options = context.options;
  options.strategy = strategy;
  const SearchContext one{context.view, context.kinds_view, context.slots, options};
  return strategy == Strategy::kMegatron || strategy == Strategy::kHolmes ? grid_plan(one, job)
                                                                          : searched_plan(one, job);
}

/// The best of the others, then better still.
Plan auto_plan(const SearchContext& context, const Job& job) {
  constexpr double kMostLayouts = 2e5;
  std::optional<Plan> best;
  std::optional<Error> why;
  std::vector<std::string> others;
  for (const Strategy strategy :
       {Strategy::kHolmes, Strategy::kMegatron, Strategy::kPipette, Strategy::kFlashFlex}) {
    try {
      Plan plan = plan_by(strategy, context, job);
      others.push_back(
          fmt::format("{} {}", strategy_name(strategy), format_seconds(plan.prediction.step_seconds)));
      if (!best || plan.prediction.step_seconds < best->prediction.step_seconds) best = std::move(plan);
    } catch (const Error& error) {
      if (!why) why = error;
    }
  }
  const double layouts = layouts_in_all(context, job);
  const bool exhaustive = layouts <= kMostLayouts;
  if (!best && !exhaustive) throw Error(*why);
  if (exhaustive) {
    const double limit = best ? best->prediction.step_seconds * (1 - 1e-9) : Scorer::kNever;
    if (auto plan = exhaustive_plan(context, job, limit)) best = std::move(*plan);
    if (!best) throw Error(*why);
  } else {
    const auto ranks = static_cast<std::int64_t>(context.slots.size());
    best = improved_plan(context, job, *best, std::clamp<std::int64_t>(12'800 / ranks, 4, 400));
  }
  best->strategy = strategy_name(Strategy::kAuto);
  best->notes.insert(
      best->notes.begin(),
      fmt::format("{}; per step: {}",
                  exhaustive ? "the best of all layouts"
                             : "the best of the strategies, then changed as long as it got faster",
                  others.empty() ? "no strategy has a plan" : fmt::format("{}", fmt::join(others, ", "))));
  return std::move(*best);
}

}  // namespace

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

  Plan plan =
      options.strategy == Strategy::kAuto ? auto_plan(context, job) : plan_by(options.strategy, context, job);
  plan.prediction.tokens_per_second =
      static_cast<double>(job.global_batch) * job.model.context / plan.prediction.step_seconds;
  plan.groups = groups_of(plan, view);
  return plan;
}

}  // namespace tombolo::planner
