#include "planner/strategies/machine_aligned.h"

#include <algorithm>

#include "planner/search/host_division.h"

namespace tombolo::planner {

std::optional<Plan> machine_aligned_plan(const SearchContext& context, const Job& job) {
  const auto most =
      std::clamp<std::int64_t>(2048 / static_cast<std::int64_t>(context.launcher_slots.size()), 3, 24);
  Scorer scorer(context, job);
  std::optional<Layout> best;
  double best_seconds = Scorer::kNever;
  for (Layout& layout : host_divisions(context, job, true)) {
    if (scorer.simulated() >= most) break;
    const double seconds = scorer.seconds(layout, best_seconds);
    if (seconds >= best_seconds) continue;
    best_seconds = seconds;
    best = std::move(layout);
  }
  if (!best) return std::nullopt;
  return scorer.plan(*best);
}

}  // namespace tombolo::planner
