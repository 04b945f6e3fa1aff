#include "planner/explain/sensitivity.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>

#include "base/error.h"
#include "planner/explain/what_if.h"
#include "planner/plan/cluster_view.h"
#include "planner/simulate/simulator.h"

namespace tombolo::planner {

std::vector<Sensitivity> sensitivities(const Plan& plan, const topology::ClusterFile& cluster) {
  constexpr double kFasterDevices = 1.2, kLongLatency = 1e-3;
  const ClusterView view(cluster, plan.routing, hosts_of(plan));
  std::map<std::string, int> first_host;  // by cluster
  for (const std::string& name : hosts_of(plan)) {
    const int host = view.host_index(name);
    first_host.emplace(view.host(host).cluster, host);
  }
  std::vector<Sensitivity> found;
  const auto add = [&](std::string words, const Change& change) {
    try {
      const double step = simulate(plan, with_changes(cluster, {change}), {.spans = false}).step_seconds;
      found.push_back({std::move(words), step});
    } catch (const Error&) {
      // The change cannot be made of this cluster file, for example of a link that it does not state.
    }
  };
  for (auto from = first_host.begin(); from != first_host.end(); ++from) {
    for (auto to = std::next(from); to != first_host.end(); ++to) {
      if (!view.linked(from->second, to->second)) continue;
      const Path& path = view.path(from->second, to->second);
      Change change;
      change.kind = Change::Kind::kLink;
      change.name = from->first;
      change.to = to->first;
      change.bytes_per_second = 2 * path.bytes_per_second;
      add(fmt::format("twice the rate between {} and {}", from->first, to->first), change);
      if (path.latency_seconds < kLongLatency) continue;
      change.bytes_per_second = path.bytes_per_second;
      change.latency_seconds = path.latency_seconds / 2;
      add(fmt::format("half the latency between {} and {}", from->first, to->first), change);
    }
    Change change;
    change.kind = Change::Kind::kSpeed;
    change.name = from->first;
    change.factor = kFasterDevices;
    add(fmt::format("devices of {} {} times as fast", from->first, kFasterDevices), change);
  }
  std::ranges::stable_sort(found, {}, &Sensitivity::step_seconds);
  return found;
}

}  // namespace tombolo::planner
