// FlashFlex (arXiv 2409.01143): replicas of different shape. Each type of host has its own tensor degree;
// hosts, or equal slices of them, are divided among pipelines; layers follow speed within memory, rows follow
// the pipelines' speed. Shapes are ranked by an estimate, and the best are simulated.
#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <tuple>

#include "planner/plan/layer_split.h"
#include "planner/search/host_division.h"
#include "planner/search/shape_search.h"
#include "planner/strategies/local_search.h"
#include "planner/strategies/strategy.h"

namespace tombolo::planner {

namespace {

/// Searches shapes by estimate, and takes the best of them by simulation.
class ShapeSearch {
 public:
  ShapeSearch(const SearchContext& context, const Job& job)
      : context_(context),
        job_(job),
        pools_(pools_of(context)),
        estimator_(context, job, pools_),
        scorer_(context, job) {}

  /// The plan that is fastest in simulation.
  std::optional<Plan> run() {
    constexpr std::size_t kAgain = 3;
    simulate(first_shapes());
    // The best by estimate is often not the best in simulation, so the search goes on from the latter.
    std::ranges::stable_sort(simulated_, {}, &Ranked::seconds);
    std::vector<Ranked> again;
    for (std::size_t i = 0; i < std::min(kAgain, simulated_.size()); ++i) {
      Shape& shape = simulated_[i].shape;
      const double seconds = estimator_.seconds(shape);
      again.push_back(improved({seconds, std::move(shape)}));
    }
    simulate(std::move(again));
    if (!best_) return std::nullopt;
    return scorer_.plan(*best_);
  }

 private:
  /// The two shapes that the estimate ranks best for each number of replicas, each improved by annealing.
  std::vector<Ranked> first_shapes() {
    constexpr std::size_t kStarts = 8, kColumns = 48;
    std::vector<Ranked> all = column_shapes(context_, job_, pools_, estimator_, kColumns);
    for (const Layout& layout : host_divisions(context_, job_, false)) {
      Shape shape = shape_of(layout, pools_);
      if (std::ranges::any_of(idle_devices(shape, pools_), [](int idle) { return idle < 0; })) continue;
      const double seconds = estimator_.seconds(shape);
      if (seconds < Scorer::kNever) all.push_back({seconds, std::move(shape)});
    }
    std::ranges::stable_sort(all, {}, &Ranked::seconds);
    std::map<int, int> of_replicas;
    std::vector<Ranked> result;
    for (const Ranked& one : all)
      if (result.size() < 2 * kStarts && of_replicas[one.shape.replicas()]++ < 2) {
        result.push_back(improved(one));
        result.push_back(one);
      }
    return result;
  }

  Ranked improved(const Ranked& start) {
    constexpr std::int64_t kMostOperations = 1'500'000;
    std::int64_t slots = 0;
    for (const Shape::Kind& kind : start.shape.kinds) slots += static_cast<std::int64_t>(kind.slots.size());
    const std::int64_t once = 2 * slots * job_.replica_rows() / start.shape.replicas();
    return improved_shape(context_, job_, pools_, estimator_, start,
                          std::min(kMostOperations, 300 * slots * once), ++seed_);
  }

  /// Gives a layout of 1F1B, which shapes are of, the first schedule that is open. False where its layers do
  /// not divide into that one's chunks.
  bool take_open_schedule(Layout& layout) const {
    if (context_.options.schedules.empty()) return true;
    std::tie(layout.schedule, layout.chunks) = context_.options.schedules.front();
    for (Layout::Replica& replica : layout.replicas)
      for (Layout::PipelineSlot& slot : replica.slots) {
        if (slot.layers % layout.chunks != 0) return false;
        slot.layers /= layout.chunks;
      }
    return true;
  }

  void simulate(std::vector<Ranked> shapes) {
    // In tests estimates were seldom wrong by more than a tenth.
    constexpr double kDoubt = 1.15;
    std::ranges::stable_sort(shapes, {}, &Ranked::seconds);
    for (const Ranked& ranked : shapes) {
      // Several starts may lead to the same shape.
      const bool known = std::ranges::any_of(seen_, [&](const Shape& one) { return one == ranked.shape; });
      if (known || ranked.seconds > kDoubt * best_seconds_) continue;
      seen_.push_back(ranked.shape);
      Layout layout = layout_of(ranked.shape, pools_);
      divide_expressibly(layout);
      if (!take_open_schedule(layout)) continue;
      const double seconds = scorer_.seconds(layout);
      simulated_.push_back({seconds, ranked.shape});
      if (seconds >= best_seconds_) continue;
      best_seconds_ = seconds;
      best_ = std::move(layout);
    }
  }

  /// Shapes divide layers by speed alone; not every framework can say every division.
  void divide_expressibly(Layout& layout) const {
    for (Layout::Replica& replica : layout.replicas) {
      std::vector<int> layers;
      for (const Layout::PipelineSlot& slot : replica.slots) layers.push_back(slot.layers);
      layers = nearest_split(layers, traits(job_.framework));
      for (std::size_t slot = 0; slot < layers.size(); ++slot) replica.slots[slot].layers = layers[slot];
    }
  }

  const SearchContext& context_;
  const Job& job_;
  std::vector<Pool> pools_;
  Estimator estimator_;
  Scorer scorer_;
  std::uint64_t seed_ = 0;
  std::vector<Shape> seen_;
  std::vector<Ranked> simulated_;
  std::optional<Layout> best_;
  double best_seconds_ = Scorer::kNever;
};

std::optional<Plan> flashflex_plan(const SearchContext& context, const Job& job) {
  std::optional<Plan> plan = ShapeSearch(context, job).run();
  if (!plan) return std::nullopt;
  // The time of a simulation grows with the number of ranks, and so does the number of moves that are worth
  // one.
  const auto ranks = static_cast<std::int64_t>(context.launcher_slots.size());
  *plan = improved_plan(context, job, *plan, std::clamp<std::int64_t>(60'000 / (ranks * ranks), 3, 60));
  plan->notes.push_back(
      plan->uniform() ? fmt::format("{}, layers by speed within memory", plan->shape())
                      : fmt::format("replicas of their own shapes ({}); tensor degrees by type of host, "
                                    "layers and rows by speed within memory",
                                    plan->shape()));
  return plan;
}

}  // namespace

extern constinit const Strategy flashflex_strategy{
    .name = "flashflex",
    .help =
        "replicas of their own shapes: stages, tensor degrees, layers and rows by speed (where the\n"
        "framework needs replicas that are alike, it chooses among those)",
    .capabilities = {.leaves_devices_out = true,
                     .uneven_replicas = true,
                     .tensor_degree_per_type = true,
                     .simulates_few = true},
    .plan = flashflex_plan,
};

}  // namespace tombolo::planner
