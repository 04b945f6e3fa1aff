#include "planner/cost/engine_reduction.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <set>

#include "collectives/schedule/link_facts.h"
#include "planner/model/index.h"

namespace tombolo::planner {

namespace {

using collectives::Level;
using collectives::RankMap;

std::vector<collectives::RankLocation> locations_of(const ClusterView& view, const std::vector<int>& hosts) {
  std::vector<collectives::RankLocation> locations;
  for (const int host : hosts) locations.push_back({view.host(host).name, view.host(host).cluster});
  return locations;
}

RankMap map_of(const ClusterView& view, const std::vector<int>& hosts) {
  RankMap map = RankMap::make(0, locations_of(view, hosts));
  map.uniform_links = view.routing() == Routing::kShared;
  return map;
}

/// Each host once, in the order of their lowest members.
std::vector<int> distinct(const std::vector<int>& hosts) {
  std::set<int> met;
  std::vector<int> once;
  for (const int host : hosts)
    if (met.insert(host).second) once.push_back(host);
  return once;
}

/// Whether each host has as many members as any other.
bool are_alike(const std::vector<int>& hosts) {
  std::map<int, int> members;
  for (const int host : hosts) ++members[host];
  return std::ranges::all_of(members, [&](const auto& one) { return one.second == members.begin()->second; });
}

/// What a cluster file says of the links among these hosts.
collectives::LinkFacts facts_of(const ClusterView& view, const std::vector<int>& hosts) {
  return collectives::link_facts(view.cluster(), view.links(), locations_of(view, distinct(hosts)));
}

/// What messages cost there; a latency that nobody knows is none.
collectives::NetworkCosts costs_of(const collectives::LinkFacts& facts) {
  collectives::NetworkCosts costs;
  for (const collectives::LevelFacts& one : {facts.inside, facts.between})
    if (one.bytes_per_second > 0)
      costs.levels[static_cast<std::size_t>(one.level)] =
          collectives::LinkCost::of(one.latency_seconds, one.bytes_per_second);
  costs.set_uplink(facts.uplink_bytes_per_second);
  return costs;
}

}  // namespace

EngineModel::EngineModel(const ClusterView& view, const std::vector<int>& hosts)
    : map_(map_of(view, hosts)), costs_(map_, {}) {
  const std::vector<int> once = distinct(hosts);
  one_host_ = once.size() == 1;
  if (view.cluster().shared_processor && view.shares_processor(hosts.front()))
    tuning_.host_bytes = collectives::kHostBytesOnSharedProcessors;
  if (one_host_) return;
  const collectives::LinkFacts facts = facts_of(view, hosts);
  costs_ = collectives::JobCosts(map_, costs_of(facts));
  std::vector<collectives::LevelFacts> levels;
  if (once.size() > map_.clusters.size()) levels.push_back(facts.inside);
  if (map_.clusters.size() > 1) levels.push_back(facts.between);
  chooses_by_costs_ =
      are_alike(hosts) && collectives::network_costs(levels, facts.uplink_bytes_per_second).has_value();
  collectives::tune_to_links(tuning_, map_, chooses_by_costs_ ? &costs_ : nullptr);
}

collectives::Situation EngineModel::situation() const {
  return {.ranks = map_,
          .tuning = tuning_,
          .host_memory = one_host_,
          .costs = chooses_by_costs_ ? &costs_ : nullptr};
}

EngineCall EngineModel::all_reduce(double bytes, std::size_t element_bytes) const {
  EngineCall call;
  call.problem.count = static_cast<std::size_t>(std::ceil(bytes / static_cast<double>(element_bytes)));
  call.problem.element_bytes = element_bytes;
  call.choice = collectives::choose(collectives::Collective::kAllReduce, call.problem, situation());
  const std::uint64_t members = costs_.ranks();
  if (members == 1) return call;
  collectives::Nanoseconds cost = 0;
  if (call.choice.through_host_memory())
    cost = costs_.memory(2 * (members - 1) * (call.problem.bytes() / members));
  else if (call.choice.algorithm->cost != nullptr)
    cost = call.choice.algorithm->cost(costs_, call.problem, call.choice.tuning);
  call.seconds = static_cast<double>(cost) * 1e-9;
  return call;
}

AllReduce EngineModel::traffic(const EngineCall& call, EngineTraffic& known) const {
  AllReduce all;
  if (map_.size < 2) return all;
  all.rounds = 1;  // what was sent last arrives a latency later
  all.least_seconds = call.seconds;
  all.transfers = known.of(map_, call.problem, call.choice);
  return all;
}

std::string EngineModel::why(const EngineCall& call) const {
  return collectives::explain(call.choice, collectives::Collective::kAllReduce, call.problem, situation());
}

}  // namespace tombolo::planner
