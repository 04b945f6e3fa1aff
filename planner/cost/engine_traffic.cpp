#include "planner/cost/engine_traffic.h"

#include <algorithm>
#include <numeric>
#include <utility>

#include "planner/model/index.h"

namespace tombolo::planner {

namespace {

using collectives::RankMap;

/// Cut evenly among up to 16 members.
constexpr std::size_t kMostElements = 720720;
/// So many transfers are remembered; then all are forgotten.
constexpr std::size_t kMostTransfers = std::size_t{1} << 22;

/// Each member reads the others' values of its part, and then the others' parts.
std::vector<Transfer> through_host_memory(int members) {
  std::vector<Transfer> transfers;
  for (int from = 0; from < members; ++from)
    for (int to = 0; to < members; ++to)
      if (from != to) transfers.push_back({from, to, 2.0 / members});
  return transfers;
}

/// The same where each member's number is its place.
RankMap by_place(RankMap map) {
  std::iota(map.order.begin(), map.order.end(), 0);
  int place = 0;
  for (auto& cluster : map.clusters)
    for (int& member : cluster) member = place++;
  return map;
}

/// Calls `act` with such a map as each member sees it.
template <typename Act>
void for_each_member(RankMap map, const Act& act) {
  for (std::size_t cluster = 0; cluster < map.clusters.size(); ++cluster) {
    map.cluster = static_cast<int>(cluster);
    for (std::size_t index = 0; index < map.clusters[cluster].size(); ++index) {
      map.index = static_cast<int>(index);
      map.rank = map.position = map.clusters[cluster][index];
      act(std::as_const(map));
    }
  }
}

std::vector<Transfer> by_schedules(const RankMap& map, const collectives::Problem& problem,
                                   const collectives::Choice& choice) {
  const auto whole = static_cast<double>(problem.bytes());
  std::map<std::pair<int, int>, std::size_t> sent;  // in an order that is the same on every machine
  for_each_member(by_place(map), [&](const RankMap& seen) {
    const collectives::Schedule schedule = choice.algorithm->build(seen, problem, choice.tuning, true);
    for (const collectives::Step& step : schedule.steps)
      if (step.kind == collectives::StepKind::kSend) sent[{seen.rank, step.peer}] += step.bytes;
  });
  std::vector<Transfer> transfers;
  for (const auto& [ends, bytes] : sent)
    if (bytes > 0) transfers.push_back({ends.first, ends.second, static_cast<double>(bytes) / whole});
  return transfers;
}

}  // namespace

std::vector<Transfer> EngineTraffic::of(const RankMap& map, const collectives::Problem& problem,
                                        const collectives::Choice& chosen) {
  collectives::Problem shorter = problem;
  shorter.count = std::min(problem.count, kMostElements);
  collectives::Choice choice = chosen;
  // What a schedule decides by its bytes is decided as for the whole vector.
  if (shorter.count < problem.count) {
    const double shortened = static_cast<double>(shorter.count) / static_cast<double>(problem.count);
    for (std::size_t* bytes : {&choice.tuning.crossing_bytes, &choice.tuning.latency_bytes})
      *bytes = static_cast<std::size_t>(static_cast<double>(*bytes) * shortened);
  }
  Key key{choice.algorithm,
          shorter.count,
          shorter.element_bytes,
          choice.tuning.segment_bytes,
          choice.tuning.crossing_bytes,
          choice.tuning.latency_bytes,
          map.uniform_links,
          map.hosts};
  auto known = known_.find(key);
  if (known == known_.end()) {
    std::vector<Transfer> transfers =
        choice.through_host_memory() ? through_host_memory(map.size) : by_schedules(map, shorter, choice);
    if (transfers_ + transfers.size() > kMostTransfers) {
      known_.clear();
      transfers_ = 0;
    }
    transfers_ += transfers.size();
    known = known_.emplace(std::move(key), std::move(transfers)).first;
  }
  std::vector<Transfer> result = known->second;
  for (Transfer& one : result) {
    one.from = map.order[at(one.from)];
    one.to = map.order[at(one.to)];
  }
  return result;
}

}  // namespace tombolo::planner
