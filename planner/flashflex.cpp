#include <fmt/format.h>

#include <algorithm>
#include <map>

#include "planner/host_division.h"
#include "planner/shape_search.h"
#include "planner/strategies.h"

namespace tombolo::planner {

namespace {

/// Shapes of every origin, the best by estimate of each number of replicas, improved.
std::vector<Ranked> shapes_to_try(const SearchContext& context, const Job& job,
                                  const std::vector<Pool>& pools, Estimator& estimator) {
  constexpr std::size_t kStarts = 8, kColumns = 48;
  constexpr std::int64_t kMostOperations = 3'000'000;
  std::vector<Ranked> all = column_shapes(context, job, pools, estimator, kColumns);
  for (const Layout& layout : host_divisions(context, job, false)) {
    Shape shape = shape_of(layout, pools);
    if (std::ranges::any_of(idle_devices(shape, pools), [](int idle) { return idle < 0; })) continue;
    const double seconds = estimator.seconds(shape);
    if (seconds < Scorer::kNever) all.push_back({seconds, std::move(shape)});
  }
  std::ranges::stable_sort(all, {}, &Ranked::seconds);
  std::map<int, int> of_replicas;
  std::vector<Ranked> starts;
  for (const Ranked& one : all)
    if (starts.size() < kStarts && of_replicas[one.shape.replicas()]++ < 2) starts.push_back(one);
  std::vector<Ranked> result;
  for (const Ranked& start : starts) {
    std::int64_t places = 0;
    for (const Shape::Kind& kind : start.shape.kinds) places += static_cast<std::int64_t>(kind.places.size());
    const std::int64_t once = 2 * places * job.global_batch / start.shape.replicas();
    result.push_back(improved_shape(context, job, pools, estimator, start,
                                    std::min(kMostOperations, 300 * places * once), result.size() + 1));
    result.push_back(start);
  }
  std::ranges::stable_sort(result, {}, &Ranked::seconds);
  // Several starts may lead to one end. (clang 14 cannot take libstdc++'s std::ranges::unique.)
  const auto alike = [](const Ranked& left, const Ranked& right) { return left.shape == right.shape; };
  result.erase(std::unique(result.begin(), result.end(), alike), result.end());
  return result;
}

}  // namespace

std::optional<Plan> flashflex_plan(const SearchContext& context, const Job& job) {
  const std::vector<Pool> pools = pools_of(context);
  Estimator estimator(context, job, pools);
  Scorer scorer(context, job);
  std::optional<Layout> best;
  double best_seconds = Scorer::kNever;
  for (const Ranked& ranked : shapes_to_try(context, job, pools, estimator)) {
    Layout layout = layout_of(ranked.shape, pools);
    const double seconds = scorer.seconds(layout, best_seconds);
    if (seconds >= best_seconds) continue;
    best_seconds = seconds;
    best = std::move(layout);
  }
  if (!best) return std::nullopt;
  std::optional<Plan> plan = scorer.plan(*best);
  *plan =
      improved_plan(context, job, *plan,
                    std::clamp<std::int64_t>(2048 / static_cast<std::int64_t>(context.slots.size()), 3, 60));
  plan->notes.push_back(
      fmt::format("replicas of their own shapes ({}); tensor degrees by type of host, layers and rows by "
                  "speed within memory",
                  plan->shape()));
  return plan;
}

std::optional<Plan> machine_aligned_plan(const SearchContext& context, const Job& job) {
  const auto most = std::clamp<std::int64_t>(2048 / static_cast<std::int64_t>(context.slots.size()), 3, 24);
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
