#include "planner/strategies/auto.h"

#include <fmt/ranges.h>

#include <algorithm>

#include "base/error.h"
#include "base/units.h"
#include "planner/cost/memory.h"
#include "planner/plan/inexpressible.h"
#include "planner/plan/model_chunks.h"
#include "planner/search/condense.h"
#include "planner/strategies/exhaustive.h"
#include "planner/strategies/local_search.h"
#include "planner/strategies/strategy.h"

namespace tombolo::planner {

namespace {

/// Plans a part of a large cluster and repeats it. Nothing where the cluster has no equal parts, or where the
/// whole does not fit in memory although its parts do.
std::optional<Plan> repeated_plan(const SearchContext& context, const Job& job, std::size_t most_ranks) {
  const auto part = condensed(context, job, most_ranks);
  if (!part) return std::nullopt;
  SearchContext inside{context.view, context.kinds_view, part->slots, context.options};
  inside.times = context.times;
  const Plan small = auto_plan(inside, part->job);
  const Layout layout = repeated(layout_of(inside, small), *part);
  Scorer scorer(context, job);
  if (scorer.seconds(layout) == Scorer::kNever) return std::nullopt;
  Plan plan = scorer.plan(layout);
  plan.notes = small.notes;
  plan.notes.insert(
      plan.notes.begin(),
      fmt::format("planned for {} ranks and repeated {} times, for the hosts fall into equal parts",
                  part->slots.size(), part->copies));
  return plan;
}

/// The best plan that the strategies found, and what each of them found.
struct Found {
  std::optional<Plan> best;
  std::vector<std::string> by;  ///< results for the plan's notes: "holmes 2.1 s"
  std::optional<Error> why;     ///< the first failure

  void add(std::string_view name, std::optional<Plan> plan) {
    if (!plan) {
      by.push_back(fmt::format("{} no faster", name));
      return;
    }
    const double seconds = plan->prediction.step_seconds;
    by.push_back(fmt::format("{} {}", name, format_seconds(seconds)));
    if (!best || seconds < best->prediction.step_seconds) best = std::move(plan);
  }
};

Found by_strategies(const SearchContext& context, const Job& job, std::size_t most_at_once) {
  const bool large = context.launcher_slots.size() > most_at_once;
  Found found;
  const auto attempt = [&found](const auto& search) {
    try {
      search();
    } catch (const Error& error) {
      if (!found.why) found.why = error;
    }
  };
  if (large)
    attempt([&] {
      if (auto plan = repeated_plan(context, job, most_at_once))
        found.add("a part, repeated", std::move(plan));
    });
  std::vector<const Strategy*> others = strategies();
  std::erase_if(others, [](const Strategy* one) { return one->capabilities.asks_others; });
  if (large)
    std::stable_partition(others.begin(), others.end(),
                          [](const Strategy* one) { return one->capabilities.simulates_few; });
  for (const Strategy* strategy : others) {
    const double limit =
        large && found.best ? found.best->prediction.step_seconds * (1 - 1e-9) : Scorer::kNever;
    const SearchContext one{context.view, context.kinds_view, context.launcher_slots, context.options,
                            limit,        context.contenders, context.times};
    attempt([&] { found.add(strategy->name, plan_by(*strategy, one, job)); });
  }
  return found;
}

/// The plan with its stages in chunks of unlike numbers of layers, which no layout has, where that takes less
/// time. `plan` has a prediction.
Plan in_uneven_chunks(const SearchContext& context, const Job& job, Plan plan) {
  constexpr std::size_t kMostRanks = 1024;  // above, a simulation takes seconds
  if (plan.job.schedule != Schedule::kOneForwardOneBackward || plan.pipeline_size() == 1 ||
      context.launcher_slots.size() > kMostRanks)
    return plan;
  Plan best = plan;
  for (const auto& [schedule, chunks] : context.options.schedules) {
    if (schedule != Schedule::kInterleaved) continue;
    std::optional<Plan> other = in_chunks(plan, chunks).plan;
    if (!other || !inexpressible(*other, job.framework).empty() ||
        missing_memory(*other, context.view).bytes > 0)
      continue;
    const auto step = context.step_time(*other, best.prediction.step_seconds);
    if (!step || step->seconds >= best.prediction.step_seconds) continue;
    other->prediction.step_seconds = step->seconds;
    other->prediction.bubble_fraction = step->bubble_fraction;
    other->prediction.memory = memory_by_rank(*other);
    context.offer(*other);
    best = std::move(*other);
  }
  return best;
}

}  // namespace

Plan auto_plan(const SearchContext& context, const Job& job, std::size_t most_at_once) {
  constexpr double kMostLayouts = 2e5;
  auto [best, by, why] = by_strategies(context, job, most_at_once);
  const double layouts = layouts_in_all(context, job);
  const bool exhaustive = layouts <= kMostLayouts;
  if (!best && !exhaustive) throw Error(*why);
  if (exhaustive) {
    const double limit = best ? best->prediction.step_seconds * (1 - 1e-9) : Scorer::kNever;
    if (auto plan = exhaustive_plan(context, job, limit)) best = std::move(*plan);
    if (!best) throw Error(*why);
  } else {
    const auto ranks = static_cast<std::int64_t>(context.launcher_slots.size());
    best = improved_plan(context, job, *best, std::clamp<std::int64_t>(12'800 / ranks, 4, 400));
    best = in_uneven_chunks(context, job, std::move(*best));
  }
  best->strategy = "auto";
  best->notes.insert(
      best->notes.begin(),
      fmt::format("{}; per step: {}",
                  exhaustive ? "the best of all layouts"
                             : "the best of the strategies, then changed as long as it got faster",
                  by.empty() ? "no strategy has a plan" : fmt::format("{}", fmt::join(by, ", "))));
  return std::move(*best);
}

extern constinit const Strategy auto_strategy{
    .name = "auto",
    .help =
        "the best of these, then changed as long as it gets faster; of up to 6 ranks, and not too many\n"
        "layers and rows, the best of all layouts",
    .capabilities = {.leaves_devices_out = true,
                     .uneven_replicas = true,
                     .tensor_degree_per_type = true,
                     .asks_others = true},
    .plan = [](const SearchContext& context, const Job& job) -> std::optional<Plan> {
      return auto_plan(context, job);
    },
};

}  // namespace tombolo::planner
