#include "planner/placement.h"

#include <algorithm>
#include <map>
#include <numeric>
#include <set>
#include <tuple>

#include "base/error.h"

namespace tombolo::planner {

namespace {

using topology::NicKind;

std::size_t at(int index) {
  return static_cast<std::size_t>(index);
}

const std::string& island_of(const ClusterView& view, const Slot& slot) {
  return view.host(slot.host).cluster;
}

std::map<std::string, NicKind> island_kinds(const ClusterView& view, const std::vector<Slot>& slots) {
  std::map<std::string, NicKind> kinds;
  for (const Slot& slot : slots) {
    const std::string& name = island_of(view, slot);
    if (!kinds.contains(name)) kinds[name] = island_kind(view, slots, name);
  }
  return kinds;
}

/// `order[i]` is the launcher rank that takes logical rank i.
Placement place(const ClusterView& view, const std::vector<Slot>& slots,
                const std::vector<std::size_t>& order, int pipeline, int data) {
  TOMBOLO_CHECK(slots.size() == at(pipeline) * at(data), "slots={} pipeline={} data={}", slots.size(),
                pipeline, data);
  const auto kinds = island_kinds(view, slots);
  Placement placement;
  placement.ranks.resize(slots.size());
  for (int stage = 0; stage < pipeline; ++stage) {
    double slowest = 0;
    std::set<int> hosts;
    for (int replica = 0; replica < data; ++replica) {
      const std::size_t rank = order[at(stage * data + replica)];
      const Slot& slot = slots[rank];
      placement.ranks[rank] = {view.host(slot.host).name, slot.device, stage, replica};
      const double speed = view.flops_per_second(slot.host, slot.device);
      slowest = replica == 0 ? speed : std::min(slowest, speed);
      hosts.insert(slot.host);
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
    // All replicas of a stage do the same work, so each is as fast as the slowest.
    const std::string& cluster = island_of(view, slots[order[at(stage * data)]]);
    if (placement.spans.empty() || placement.spans.back().cluster != cluster)
      placement.spans.push_back({cluster, 0, 0});
    ++placement.spans.back().stages;
    placement.spans.back().speed += slowest * data;
  }
  return placement;
}

std::vector<std::size_t> launcher_order(std::size_t ranks) {
  std::vector<std::size_t> order(ranks);
  std::iota(order.begin(), order.end(), std::size_t{0});
  return order;
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

std::vector<Slot> launcher_slots(const ClusterView& view, const std::vector<std::string>& rank_hosts) {
  std::vector<Slot> slots;
  const auto& hosts = view.cluster().hosts;
  if (rank_hosts.empty()) {
    for (std::size_t host = 0; host < hosts.size(); ++host)
      for (std::size_t device = 0; device < hosts[host].devices.size(); ++device)
        slots.push_back({static_cast<int>(host), static_cast<int>(device)});
    if (slots.empty())
      fail(Cause::kInvalidUsage,
           "the cluster file has no devices; each host lists under \"devices\" what computes");
    return slots;
  }
  std::map<int, int> used;
  for (const std::string& name : rank_hosts) {
    const int host = view.host_index(name);
    const int device = used[host]++;
    if (at(device) >= view.host(host).devices.size())
      fail(Cause::kInvalidUsage,
           "host {} is named for {} ranks or more, but the cluster file gives it {} devices", name,
           device + 1, view.host(host).devices.size());
    slots.push_back({host, device});
  }
  return slots;
}

topology::NicKind island_kind(const ClusterView& view, const std::vector<Slot>& slots,
                              const std::string& cluster) {
  std::set<int> hosts;
  for (const Slot& slot : slots)
    if (island_of(view, slot) == cluster) hosts.insert(slot.host);
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

Placement place_in_launcher_order(const ClusterView& view, const std::vector<Slot>& slots, int pipeline,
                                  int data) {
  return place(view, slots, launcher_order(slots.size()), pipeline, data);
}

Placement place_by_nic_kind(const ClusterView& view, const std::vector<Slot>& slots, int pipeline, int data) {
  const auto kinds = island_kinds(view, slots);
  std::map<std::string, std::size_t> first_seen;
  for (std::size_t rank = 0; rank < slots.size(); ++rank)
    first_seen.try_emplace(island_of(view, slots[rank]), rank);
  std::vector<std::size_t> order = launcher_order(slots.size());
  std::stable_sort(order.begin(), order.end(), [&](std::size_t a, std::size_t b) {
    const std::string &x = island_of(view, slots[a]), &y = island_of(view, slots[b]);
    return std::tuple(kinds.at(x), first_seen.at(x)) < std::tuple(kinds.at(y), first_seen.at(y));
  });
  return place(view, slots, order, pipeline, data);
}

std::vector<Group> groups_of(const Plan& plan, const ClusterView& view) {
  std::vector<Group> groups;
  const auto add = [&](const char* kind, std::vector<int> ranks, bool ring) {
    std::vector<int> hosts;
    for (const int rank : ranks) hosts.push_back(view.host_index(plan.ranks[at(rank)].host));
    groups.push_back({kind, std::move(ranks), slowest_kind(view, hosts, ring)});
  };
  const int stages = plan.pipeline_size(), replicas = plan.data_size();
  std::vector<std::vector<int>> grid(at(stages), std::vector<int>(at(replicas)));
  for (std::size_t rank = 0; rank < plan.ranks.size(); ++rank)
    grid[at(plan.ranks[rank].stage)][at(plan.ranks[rank].replica)] = static_cast<int>(rank);
  if (replicas > 1)
    for (int stage = 0; stage < stages; ++stage) add("data", grid[at(stage)], true);
  if (stages > 1) {
    for (int replica = 0; replica < replicas; ++replica) {
      std::vector<int> ranks;
      for (int stage = 0; stage < stages; ++stage) ranks.push_back(grid[at(stage)][at(replica)]);
      add("pipeline", std::move(ranks), false);
    }
  }
  return groups;
}

}  // namespace tombolo::planner
