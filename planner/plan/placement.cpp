#include "planner/plan/placement.h"

#include <algorithm>
#include <map>
#include <numeric>
#include <set>
#include <tuple>

#include "base/error.h"
#include "planner/model/index.h"

namespace tombolo::planner {

namespace {

using topology::NicKind;

const std::string& cluster_of(const ClusterView& view, const LauncherSlot& slot) {
  return view.host(slot.host).cluster;
}

/// The slowest NIC kind between any two of a cluster's hosts; for a single host, that of its best NIC.
NicKind kind_inside(const ClusterView& view, const std::set<int>& hosts) {
  if (hosts.size() == 1) {
    NicKind best = NicKind::kTcp;
    for (const auto& nic : view.host(*hosts.begin()).nics)
      if (nic.usable) best = std::min(best, nic.kind);
    return best;
  }
  NicKind slowest = NicKind::kInfiniBand;
  for (auto i = hosts.begin(); i != hosts.end(); ++i)
    for (auto j = std::next(i); j != hosts.end(); ++j)
      slowest = std::max(slowest, view.kind_between(*i, *j).value_or(NicKind::kTcp));
  return slowest;
}

NicKind slowest_kind(const ClusterView& view, const std::vector<int>& hosts, bool ring) {
  NicKind slowest = NicKind::kInfiniBand;
  const std::size_t pairs = ring ? hosts.size() : hosts.size() - 1;
  bool any = false;
  for (std::size_t i = 0; i < pairs; ++i) {
    const int from = hosts[i], to = hosts[(i + 1) % hosts.size()];
    if (from == to) continue;
    slowest = std::max(slowest, view.path(from, to).kind);
    any = true;
  }
  return any ? slowest : view.path(hosts.front(), hosts.front()).kind;
}

}  // namespace

std::vector<LauncherSlot> launcher_slots(const ClusterView& view,
                                         const std::vector<std::string>& rank_hosts) {
  std::vector<LauncherSlot> slots;
  const auto& hosts = view.cluster().hosts;
  if (rank_hosts.empty()) {
    for (std::size_t host = 0; host < hosts.size(); ++host)
      for (std::size_t device = 0; device < hosts[host].devices.size(); ++device)
        slots.push_back({static_cast<int>(host), static_cast<int>(device)});
    if (slots.empty())
      fail(Cause::kInvalidUsage, "{} has no devices; each host lists under \"devices\" what computes",
           view.cluster().source);
    return slots;
  }
  std::map<int, int> used;
  for (const std::string& name : rank_hosts) {
    const int host = view.host_index(name);
    const int device = used[host]++;
    if (at(device) >= view.host(host).devices.size())
      fail(Cause::kInvalidUsage, "host {} is named for {} ranks or more, but {} gives it {} devices", name,
           device + 1, view.cluster().source, view.host(host).devices.size());
    slots.push_back({host, device});
  }
  return slots;
}

std::vector<std::vector<LauncherSlot>> startable_slots(const std::vector<LauncherSlot>& slots,
                                                       const FrameworkTraits& can) {
  if (can.rank_order == RankOrder::kAny && can.unequal_nodes) return {slots};
  std::vector<int> hosts;
  std::map<int, std::vector<LauncherSlot>> of_host;
  for (const LauncherSlot& slot : slots) {
    if (!of_host.contains(slot.host)) hosts.push_back(slot.host);
    of_host[slot.host].push_back(slot);
  }
  std::set<std::size_t> sizes;
  for (const auto& [host, its] : of_host) sizes.insert(its.size());
  if (can.unequal_nodes) sizes = {*sizes.rbegin()};
  std::vector<std::vector<LauncherSlot>> all;
  for (const std::size_t size : sizes) {
    std::vector<LauncherSlot>& some = all.emplace_back();
    for (const int host : hosts) {
      const std::vector<LauncherSlot>& its = of_host[host];
      if (!can.unequal_nodes && its.size() < size) continue;
      const std::size_t taken = can.unequal_nodes ? its.size() : size;
      some.insert(some.end(), its.begin(), its.begin() + static_cast<std::ptrdiff_t>(taken));
    }
  }
  return all;
}

std::map<std::string, NicKind> cluster_kinds(const ClusterView& view,
                                             const std::vector<LauncherSlot>& slots) {
  std::map<std::string, std::set<int>> hosts;
  for (const LauncherSlot& slot : slots) hosts[cluster_of(view, slot)].insert(slot.host);
  std::map<std::string, NicKind> kinds;
  for (const auto& [cluster, its_hosts] : hosts) kinds[cluster] = kind_inside(view, its_hosts);
  return kinds;
}

std::vector<std::size_t> launcher_order(std::size_t ranks) {
  std::vector<std::size_t> order(ranks);
  std::iota(order.begin(), order.end(), std::size_t{0});
  return order;
}

Placement place_in_order(const ClusterView& view, const std::vector<LauncherSlot>& slots,
                         const std::vector<std::size_t>& order, const Grid& grid) {
  const int width = grid.data * grid.tensor;
  TOMBOLO_CHECK(slots.size() == at(grid.pipeline) * at(width), "slots={} pipeline={} data={} tensor={}",
                slots.size(), grid.pipeline, grid.data, grid.tensor);
  const auto kinds = cluster_kinds(view, slots);
  Placement placement;
  placement.ranks.resize(slots.size());
  for (int stage = 0; stage < grid.pipeline; ++stage) {
    double slowest = 0;
    std::set<int> hosts;
    for (int i = 0; i < width; ++i) {
      const std::size_t rank = order[at(stage * width + i)];
      const LauncherSlot& slot = slots[rank];
      placement.ranks[rank] = {view.host(slot.host).name, slot.device, stage, i / grid.tensor,
                               i % grid.tensor};
      const double speed = view.flops_per_second(slot.host, slot.device);
      slowest = i == 0 ? speed : std::min(slowest, speed);
      hosts.insert(slot.host);
      if (slot.host != slots[order[at(stage * width + i / grid.tensor * grid.tensor)]].host)
        placement.tensor_inside_hosts = false;
    }
    for (auto i = hosts.begin(); i != hosts.end(); ++i) {
      for (auto j = std::next(i); j != hosts.end(); ++j) {
        const std::string &a = view.host(*i).cluster, &b = view.host(*j).cluster;
        if (a == b) continue;
        const auto between = view.kind_between(*i, *j);
        if (!between || *between > kinds.at(a) || *between > kinds.at(b))
          placement.groups_inside_kinds = false;
      }
    }
    // All replicas of a stage do the same work, so each proceeds at the speed of the slowest.
    const std::string& cluster = cluster_of(view, slots[order[at(stage * width)]]);
    if (placement.spans.empty() || placement.spans.back().cluster != cluster)
      placement.spans.push_back({cluster, 0, 0});
    ++placement.spans.back().stages;
    placement.spans.back().speed += slowest * width;
  }
  return placement;
}

Placement place_in_launcher_order(const ClusterView& view, const std::vector<LauncherSlot>& slots,
                                  const Grid& grid) {
  return place_in_order(view, slots, launcher_order(slots.size()), grid);
}

std::vector<Group> groups_of(const Plan& plan, const ClusterView& view) {
  std::vector<Group> groups;
  const auto add = [&](const char* kind, std::vector<int> ranks, bool ring) {
    std::vector<int> hosts;
    for (const int rank : ranks) hosts.push_back(view.host_index(plan.ranks[at(rank)].host));
    groups.push_back({kind, std::move(ranks), slowest_kind(view, hosts, ring)});
  };
  const auto slots = plan.ranks_by_slot();
  for (const auto& replica : slots)
    for (const auto& ranks : replica)
      if (ranks.size() > 1) add("tensor", ranks, true);
  const std::size_t parts = at(plan.job.context_parallel);
  for (std::size_t begin = 0; parts > 1 && begin < slots.size(); begin += parts)
    for (std::size_t stage = 0; stage < slots[begin].size(); ++stage)
      for (std::size_t tensor = 0; tensor < slots[begin][stage].size(); ++tensor) {
        std::vector<int> ranks;
        for (std::size_t part = 0; part < parts; ++part) ranks.push_back(slots[begin + part][stage][tensor]);
        add("context", std::move(ranks), true);
      }
  // Of the replicas in groups of this many those of one group divide a layer's experts, and those of equal
  // place in all groups have the same.
  const std::size_t divided = at(plan.job.expert_parts());
  const auto add_experts = [&](const char* kind, std::size_t first, std::size_t step, std::size_t count) {
    for (std::size_t stage = 0; stage < slots.front().size(); ++stage)
      for (std::size_t tensor = 0; tensor < slots.front()[stage].size(); ++tensor) {
        std::vector<int> ranks;
        for (std::size_t i = 0; i < count; ++i) ranks.push_back(slots[first + i * step][stage][tensor]);
        add(kind, std::move(ranks), true);
      }
  };
  for (std::size_t first = 0; divided > 1 && first < slots.size(); first += divided)
    add_experts("expert", first, 1, divided);
  for (std::size_t first = 0; divided > 1 && divided < slots.size() && first < divided; ++first)
    add_experts("expert-data", first, divided, slots.size() / divided);
  // A rank reduces the gradients of its layers with the ranks of equal tensor index in the other replicas.
  // Where stages or tensor degrees differ, it does so with all ranks that hold some of these layers.
  const auto same_cut = [&](const Pipeline& one) {
    return std::ranges::equal(one.stages, plan.stages(),
                              [](const Stage& a, const Stage& b) { return a == b; });
  };
  if (plan.data_size() > 1 && std::ranges::all_of(plan.pipelines, same_cut)) {
    for (std::size_t stage = 0; stage < slots.front().size(); ++stage)
      for (std::size_t tensor = 0; tensor < slots.front()[stage].size(); ++tensor) {
        std::vector<int> ranks;
        for (const auto& replica : slots) ranks.push_back(replica[stage][tensor]);
        add("data", std::move(ranks), true);
      }
  } else if (plan.data_size() > 1) {
    for (int last = plan.job.model.layers - 1; last >= 0;) {
      int first = 0;
      std::vector<int> ranks;
      for (int replica = 0; replica < plan.data_size(); ++replica) {
        const std::vector<Stage>& stages = plan.stages(replica);
        std::size_t holder = 0;
        while (holder + 1 < stages.size() && stages[holder + 1].first_layer <= last) ++holder;
        first = std::max(first, stages[holder].first_layer);
        const auto& held = slots[at(replica)][holder % slots[at(replica)].size()];
        ranks.insert(ranks.end(), held.begin(), held.end());
      }
      add("data", std::move(ranks), true);
      last = first - 1;
    }
  }
  for (const auto& replica : slots) {
    if (replica.size() < 2) continue;
    std::size_t most = 0;
    for (const auto& ranks : replica) most = std::max(most, ranks.size());
    for (std::size_t tensor = 0; tensor < most; ++tensor) {
      std::vector<int> ranks;
      for (const auto& stage : replica) ranks.push_back(stage[tensor % stage.size()]);
      add("pipeline", std::move(ranks), false);
    }
  }
  return groups;
}

}  // namespace tombolo::planner
