#include "planner/explain/left_out.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <map>
#include <set>

#include "base/units.h"
#include "planner/model/index.h"
#include "planner/search/shape_costs.h"

namespace tombolo::planner {

namespace {

struct IdleType {
  int pool = 0;  // one of its pools
  int idle = 0;
  std::set<std::string> hosts;
};

std::string reason(ShapeCosts& costs, const Shape& shape, int pool, double slowest) {
  Shape::Kind alone;
  alone.slots = {{pool, 1, 1}, {pool, 1, 1}};
  alone.micro_batches = 1;
  if (costs.room(alone, 0, shape) < 1 && costs.room(alone, 1, shape) < 1)
    return "not one layer fits into their memory";
  const double layer = costs.layer_seconds(pool, 1, shape);
  if (layer > slowest)
    return fmt::format("one layer takes {} per micro-batch there, all of the slowest stage {}",
                       format_seconds(layer), format_seconds(slowest));
  return "no plan that was found with them is faster";
}

}  // namespace

std::vector<std::string> why_left_out(const SearchContext& context, const Plan& plan) {
  const std::vector<Pool> pools = pools_of(context);
  std::map<int, IdleType> types;
  for (std::size_t i = 0; i < pools.size(); ++i)
    for (const int rank : pools[i].ranks) {
      const LauncherSlot& launcher_slot = context.launcher_slots[at(rank)];
      const std::string& host = context.view.host(launcher_slot.host).name;
      if (std::ranges::find(plan.left_out, IdleDevice{host, launcher_slot.device}) == plan.left_out.end())
        continue;
      IdleType& type = types[pools[i].type];
      type.pool = static_cast<int>(i);
      ++type.idle;
      type.hosts.insert(host);
    }
  const Layout layout = layout_of(context, plan);
  const Shape shape = shape_of(layout, pools);
  Job open = plan.job;  // tries any tensor degree
  open.tensor = 0;
  ShapeCosts costs(context, open, pools);
  double slowest = 0;
  for (const Shape::Kind& kind : shape.kinds)
    for (const Shape::PipelineSlot& slot : kind.slots)
      slowest = std::max(slowest, slot.layers * costs.layer_seconds(slot.pool, slot.degree, shape));
  std::vector<std::string> sentences;
  for (const auto& [number, type] : types) {
    const LauncherSlot& launcher_slot = context.launcher_slots[at(pools[at(type.pool)].ranks.front())];
    sentences.push_back(
        fmt::format("left out: {} {} of {}: {}", type.idle,
                    context.view.host(launcher_slot.host).devices[at(launcher_slot.device)].name,
                    fmt::join(type.hosts, ", "), reason(costs, shape, type.pool, slowest)));
  }
  return sentences;
}

}  // namespace tombolo::planner
