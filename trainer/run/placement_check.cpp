#include "trainer/run/placement_check.h"

#include <fmt/ranges.h>

#include <algorithm>

#include "base/error.h"

namespace tombolo::trainer {
namespace {

std::vector<std::string> planned_hosts(const planner::Plan& plan) {
  std::vector<std::string> hosts;
  for (const planner::RankPlacement& place : plan.ranks) hosts.push_back(place.host);
  return hosts;
}

bool contains(const std::vector<std::string>& hosts, const std::string& host) {
  return std::ranges::find(hosts, host) != hosts.end();
}

}  // namespace

std::string check_placement(const planner::Plan& plan, std::string_view plan_name,
                            const std::vector<collectives::Member>& members, collectives::Routing routing) {
  const std::vector<std::string> planned = planned_hosts(plan);
  if (members.empty() || members.size() != planned.size()) return {};
  const std::string& first = members.front().host;
  const bool one_host =
      std::ranges::all_of(members, [&](const auto& member) { return member.host == first; });
  if (one_host && !contains(planned, first)) {
    std::vector<std::string> distinct;
    for (const std::string& host : planned)
      if (!contains(distinct, host)) distinct.push_back(host);
    return fmt::format(
        "plan {} is for the hosts {}, but all {} ranks run on '{}': layers and replicas are the plan's, its "
        "hosts and its prediction are not",
        plan_name, fmt::join(distinct, ", "), members.size(), first);
  }
  std::size_t misplaced = 0, at = 0;
  for (std::size_t rank = members.size(); rank-- > 0;) {
    if (members[rank].host == planned[rank]) continue;
    ++misplaced;
    at = rank;
  }
  if (misplaced > 0) {
    const std::string& found = members[at].host;
    const std::string remedy =
        contains(planned, found)
            ? fmt::format(
                  "Start the ranks in the plan's order: `tombolo run --order {}`, or the launcher's "
                  "hosts in that order; or plan for this one (tombolo plan --order)",
                  fmt::join(planned, ","))
            : fmt::format(
                  "The plan does not name '{}'; where only the name differs, set TOMBOLO_HOST there to "
                  "the plan's",
                  found);
    fail(Cause::kInvalidUsage,
         "plan {} puts rank {} on host '{}', but it runs on '{}' ({} of {} ranks differ). {}", plan_name, at,
         planned[at], found, misplaced, members.size(), remedy);
  }
  const std::string_view running = routing == collectives::Routing::kShared ? "shared" : "per-peer";
  if (plan.routing != running) {
    fail(Cause::kInvalidUsage,
         "plan {} is for routing '{}', but the ranks route '{}'. Set TOMBOLO_ROUTING={} on every rank "
         "(tombolo "
         "run --routing {}), or plan again with --routing {}",
         plan_name, plan.routing, running, plan.routing, plan.routing, running);
  }
  return {};
}

}  // namespace tombolo::trainer
