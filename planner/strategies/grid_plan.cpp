#include "planner/strategies/grid_plan.h"

#include <fmt/format.h>

#include <algorithm>

#include "base/error.h"
#include "planner/explain/excluded.h"
#include "planner/explain/linked_parts.h"
#include "planner/explain/remedies.h"
#include "planner/search/layout.h"

namespace tombolo::planner {

std::optional<GridPlan> grid_plan(const SearchContext& context, const Job& job, const GridRule& rule) {
  Candidates found = enumerate(context, job, rule);
  std::vector<Candidate>& candidates = found.all;
  if (candidates.empty())
    fail(Cause::kInvalidUsage, "no layout of {} ranks divides: {}", context.launcher_slots.size(),
         summary_of_excluded(found.excluded));
  const std::size_t layouts = candidates.size();
  if (std::ranges::none_of(candidates, [](const Candidate& one) { return one.missing_bytes == 0; }))
    fail_nothing_fits(context, job, rule, candidates);
  std::erase_if(candidates, [](const Candidate& candidate) { return candidate.missing_bytes > 0; });
  const std::size_t fitting = candidates.size();
  if (rule.keeps_groups_inside_kinds && std::ranges::any_of(candidates, &Candidate::groups_inside_kinds))
    std::erase_if(candidates, [](const Candidate& candidate) { return !candidate.groups_inside_kinds; });

  std::ranges::stable_sort(candidates, {}, &Candidate::bound);
  Candidate* best = nullptr;
  std::string unlinked;  // why a layout cannot communicate
  std::size_t simulated = 0;
  for (Candidate& candidate : candidates) {
    Prediction& prediction = candidate.plan.prediction;
    // A later layout must be faster by more than rounding, so that among equal ones the first is always
    // taken.
    const double limit = best ? best->plan.prediction.step_seconds * (1 - 1e-9) : context.limit_seconds;
    const double worth = context.worth(limit);
    if (candidate.bound >= worth) continue;
    const auto step = context.step_time(candidate.plan, worth, &unlinked);
    ++simulated;
    if (!step) continue;
    prediction.step_seconds = step->seconds;
    prediction.bubble_fraction = step->bubble_fraction;
    context.offer(candidate.plan);
    if (prediction.step_seconds < limit) best = &candidate;
  }
  if (!best && context.limit_seconds < Scorer::kNever) return std::nullopt;
  if (!best) fail_nothing_linked(context, unlinked);
  GridPlan result{std::move(best->plan), best->groups_inside_kinds};
  result.plan.notes.push_back(fmt::format(
      "{}, {} of them per replica: the fastest of the {} layouts that fit ({} divide; {} simulated, "
      "the others cannot be faster by a lower bound)",
      layout_text(result.plan.job), result.plan.micro_batches(), fitting, layouts, simulated));
  return result;
}

}  // namespace tombolo::planner
