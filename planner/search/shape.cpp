#include "planner/search/shape.h"

#include <algorithm>
#include <map>
#include <tuple>

#include "base/error.h"
#include "planner/model/index.h"

namespace tombolo::planner {

std::vector<Pool> pools_of(const SearchContext& context) {
  using Device = std::tuple<std::string, topology::DeviceKind, double, double, double>;
  std::map<std::pair<int, Device>, std::size_t> known;
  std::map<std::tuple<Device, double, double, bool>, int> types;
  std::vector<Pool> pools;
  for (std::size_t rank = 0; rank < context.launcher_slots.size(); ++rank) {
    const LauncherSlot& launcher_slot = context.launcher_slots[rank];
    const auto& one = context.view.host(launcher_slot.host).devices[at(launcher_slot.device)];
    const Device device{one.name, one.kind, one.flops_per_second, one.memory_bytes,
                        one.memory_bytes_per_second};
    const auto [entry, added] = known.try_emplace({launcher_slot.host, device}, pools.size());
    if (added) {
      const Path& inside = context.view.path(launcher_slot.host, launcher_slot.host);
      const std::tuple type{device, inside.bytes_per_second, inside.latency_seconds,
                            context.view.shares_processor(launcher_slot.host)};
      const int number = types.try_emplace(type, static_cast<int>(types.size())).first->second;
      pools.push_back({launcher_slot.host, number, {}});
    }
    pools[entry->second].ranks.push_back(static_cast<int>(rank));
  }
  return pools;
}

int Shape::replicas() const noexcept {
  int sum = 0;
  for (const Kind& kind : kinds) sum += kind.count;
  return sum;
}

std::vector<int> idle_devices(const Shape& shape, const std::vector<Pool>& pools) {
  std::vector<int> idle;
  idle.reserve(pools.size());
  for (const Pool& pool : pools) idle.push_back(pool.size());
  for (const Shape::Kind& kind : shape.kinds)
    for (const Shape::PipelineSlot& slot : kind.slots) idle[at(slot.pool)] -= kind.count * slot.degree;
  return idle;
}

Layout layout_of(const Shape& shape, const std::vector<Pool>& pools) {
  Layout layout;
  layout.saving = shape.saving;
  std::vector<std::size_t> next(pools.size(), 0);
  for (const Shape::Kind& kind : shape.kinds)
    for (int i = 0; i < kind.count; ++i) {
      Layout::Replica& replica = layout.replicas.emplace_back();
      replica.micro_batch = shape.micro_batch;
      replica.rows = shape.micro_batch *
                     (kind.micro_batches / kind.count + (i < kind.micro_batches % kind.count ? 1 : 0));
      for (const Shape::PipelineSlot& slot : kind.slots) {
        const Pool& pool = pools[at(slot.pool)];
        const std::size_t first = next[at(slot.pool)];
        TOMBOLO_CHECK(first + at(slot.degree) <= pool.ranks.size(), "pool={} first={} degree={}", slot.pool,
                      first, slot.degree);
        next[at(slot.pool)] += at(slot.degree);
        const auto begin = pool.ranks.begin() + static_cast<std::ptrdiff_t>(first);
        replica.slots.push_back({{begin, begin + slot.degree}, slot.layers});
      }
    }
  return layout;
}

Shape shape_of(const Layout& layout, const std::vector<Pool>& pools) {
  std::map<int, int> pool_of;
  for (std::size_t pool = 0; pool < pools.size(); ++pool)
    for (const int rank : pools[pool].ranks) pool_of[rank] = static_cast<int>(pool);
  Shape shape;
  shape.saving = layout.saving;
  shape.micro_batch = layout.replicas.front().micro_batch;
  for (const Layout::Replica& replica : layout.replicas) {
    Shape::Kind kind;
    for (const Layout::PipelineSlot& slot : replica.slots)
      kind.slots.push_back(
          {pool_of.at(slot.ranks.front()), static_cast<int>(slot.ranks.size()), slot.layers});
    kind.micro_batches = replica.rows / shape.micro_batch;
    const auto same =
        std::ranges::find_if(shape.kinds, [&](const Shape::Kind& one) { return one.slots == kind.slots; });
    if (same == shape.kinds.end()) {
      shape.kinds.push_back(std::move(kind));
    } else {
      ++same->count;
      same->micro_batches += kind.micro_batches;
    }
  }
  return shape;
}

}  // namespace tombolo::planner
