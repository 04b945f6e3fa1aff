// A strategy for models that fit on every device: each rank trains a replica of the whole model.
#include "planner/search/layout.h"
#include "planner/strategies/strategy.h"

namespace tombolo::planner {

namespace {

std::optional<Plan> toy_plan(const SearchContext& context, const Job& job) {
  const int ranks = static_cast<int>(context.launcher_slots.size());
  if (job.pipeline > 1 || (job.data > 0 && job.data != ranks) || job.global_batch % ranks != 0)
    return std::nullopt;
  const int rows = job.global_batch / ranks;

  Scorer scorer(context, job);
  std::optional<Layout> best;
  double best_seconds = context.limit_seconds;
  for (int micro_batch = 1; micro_batch <= rows; ++micro_batch) {
    if (rows % micro_batch != 0 || (job.micro_batch > 0 && micro_batch != job.micro_batch)) continue;
    Layout layout;
    for (int rank = 0; rank < ranks; ++rank)
      layout.replicas.push_back({.slots = {{.ranks = {rank}, .layers = job.model.layers}},
                                 .rows = rows,
                                 .micro_batch = micro_batch});
    const double seconds = scorer.seconds(layout, best_seconds);  // infinite where it does not fit in memory
    if (seconds >= best_seconds) continue;
    best_seconds = seconds;
    best = std::move(layout);
  }
  if (!best) return std::nullopt;
  Plan plan = scorer.plan(*best);
  plan.notes.push_back("every rank trains the whole model");
  return plan;
}

}  // namespace

extern constinit const Strategy toy_strategy{
    .name = "toy",
    .help = "every rank trains the whole model; only gradients are exchanged",
    .capabilities = {},
    .plan = toy_plan,
};

}  // namespace tombolo::planner
