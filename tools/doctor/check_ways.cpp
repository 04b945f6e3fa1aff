#include <algorithm>
#include <future>
#include <nlohmann/json.hpp>
#include <utility>

#include "base/error.h"
#include "base/json.h"
#include "collectives/engine/communicator.h"
#include "probe/bootstrap/rendezvous_group.h"
#include "tools/doctor/pair.h"

namespace tombolo::doctor {

std::vector<Check> check_ways(probe::RendezvousGroup& group, const collectives::Options& engine,
                              const topology::Machine& machine) {
  HostFacts mine = own_host_facts(engine.identity.rank, engine.router.host, machine);
  const Responder responder(mine);
  std::vector<HostFacts> all;
  for (const std::string& text : group.gather("host facts", to_json(mine).dump(), engine.deadline))
    all.push_back(host_facts_from_json(parse_peer_json(text, "a rank's host facts")));
  std::vector<Check> checks = judge_hosts(mine, all);
  const auto first_of = [&](const std::string& host) {
    const auto first = std::ranges::find(all, host, &HostFacts::host);
    if (first == all.end()) fail(Cause::kRemote, "no rank sent the facts of host {}", host);
    return first->rank;
  };
  if (first_of(mine.host) == mine.rank) {
    std::vector<std::pair<const HostFacts*, std::future<std::vector<Way>>>> measuring;
    for (const HostFacts& other : all) {
      if (other.host == mine.host || first_of(other.host) != other.rank) continue;
      measuring.emplace_back(
          &other, std::async(std::launch::async, [&mine, &other] { return measure_ways(mine, other); }));
    }
    for (auto& [other, ways] : measuring) {
      for (const Way& way : ways.get()) {
        checks.push_back(describe_way(*other, way));
        for (Check& finding : judge_way(mine, *other, way)) checks.push_back(std::move(finding));
      }
    }
  }
  // The responders must answer until every host has measured.
  group.gather("measured", "", engine.deadline + std::chrono::seconds(60));
  return checks;
}

}  // namespace tombolo::doctor
