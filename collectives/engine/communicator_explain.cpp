// What a communicator says of its network, and why its last collective went the way it went.
#include <nlohmann/json.hpp>

#include "base/error.h"
#include "base/json.h"
#include "collectives/discovery/network_facts.h"
#include "collectives/engine/communicator_state.h"

namespace tombolo::collectives {
namespace {

constexpr int kExplanationVersion = 1;

/// Null where it is not known.
Json known_or_null(double value) {
  return value > 0 ? Json(value) : Json();
}

Json to_json(const NetworkFacts& facts) {
  Json clusters = Json::array(), levels = Json::array();
  for (const ClusterFacts& one : facts.clusters) {
    clusters.push_back({{"name", one.name},
                        {"hosts", one.hosts},
                        {"ranks", one.ranks},
                        {"least_ranks_per_host", one.least_per_host},
                        {"most_ranks_per_host", one.most_per_host}});
  }
  for (const LevelFacts& one : facts.levels) {
    levels.push_back({{"level", level_name(one.level)},
                      {"bytes_per_second", known_or_null(one.bytes_per_second)},
                      {"latency_seconds", known_or_null(one.latency_seconds)}});
  }
  return {{"known_from", known_from_name(facts.from)},
          {"file", facts.file.empty() ? Json() : Json(facts.file)},
          {"clusters", clusters},
          {"levels", levels},
          {"text", facts.text}};
}

std::string_view reason_name(Reason reason) noexcept {
  switch (reason) {
    case Reason::kNamed:
      return "named";
    case Reason::kTable:
      return "tuning-table";
    case Reason::kHostMemory:
      return "host-memory";
    case Reason::kModel:
      return "cost-model";
    case Reason::kRule:
      break;
  }
  return "rule";
}

/// What the table's row has of the ways at the size nearest to the call's, its own first; null where nothing.
Json expected_of(const Choice& choice, std::size_t bytes) {
  if (choice.row == nullptr) return {};
  Json all;
  for (const TimedWay& one : measured_near(*choice.row, bytes)) {
    all.push_back({{"algorithm", one.way.name()},
                   {"segment_bytes", one.way.segment_bytes > 0 ? Json(one.way.segment_bytes) : Json()},
                   {"bytes", one.bytes},
                   {"seconds", one.seconds}});
  }
  return all;
}

Json to_json(const Communicator::State::LastCall& call, const Situation& situation) {
  const Choice& choice = call.choice;
  Json ways = Json::array();
  for (const PossibleWay& one : possible_ways(call.collective, call.problem, situation)) {
    ways.push_back({{"algorithm", one.name},
                    {"applies", one.applies},
                    {"in_pieces", one.in_pieces},
                    {"segment_bytes", one.in_pieces ? Json(situation.tuning.segment_bytes) : Json()},
                    {"rule", one.rule},
                    {"estimated_seconds", one.cost ? Json(static_cast<double>(*one.cost) * 1e-9) : Json()}});
  }
  const std::size_t bytes = size_of_call(call.collective, call.problem, situation.ranks.size);
  const bool in_pieces = !choice.through_host_memory() && choice.algorithm->in_pieces;
  return {{"collective", collective_name(call.collective)},
          {"bytes", bytes},
          {"algorithm", choice.name()},
          {"segment_bytes", in_pieces ? Json(choice.tuning.segment_bytes) : Json()},
          {"channels", choice.through_host_memory() ? 0 : 1},
          {"reason", reason_name(choice.reason)},
          {"why", explain(choice, call.collective, call.problem, situation)},
          {"expected", expected_of(choice, bytes)},
          {"possible_ways", ways}};
}

}  // namespace

std::string Communicator::explain() const {
  const Call entered(*state_);
  const State& state = *state_;
  const std::vector<RankLocation> locations = state.locations();
  const NetworkFacts facts = state.facts_of(locations);
  const auto level_of = [&](int peer) {
    const RankLocation &own = locations[static_cast<std::size_t>(rank())],
                       &other = locations[static_cast<std::size_t>(peer)];
    return own.cluster != other.cluster ? Level::kBetween
           : own.host != other.host     ? Level::kCluster
                                        : Level::kHost;
  };
  Json connections = Json::array();
  for (std::size_t channel = 0; state.mesh && channel < kChannelTraffic.size(); ++channel) {
    for (int peer = 0; peer < size(); ++peer) {
      const auto* connection = peer == rank() ? nullptr : state.mesh->find(kChannelTraffic[channel], peer);
      if (connection == nullptr) continue;
      const transport::Route& route = connection->route();
      const auto streams = connection->statistics().live_streams;
      connections.push_back({{"peer", peer},
                             {"channel", channel},
                             {"level", level_name(level_of(peer))},
                             {"transport", route.transport},
                             {"local_nic", route.local_nic},
                             {"peer_nic", route.peer_nic},
                             {"streams", streams > 0 ? Json(streams) : Json()}});
    }
  }
  const JobShape shape = state.shape();
  return Json{{"tombolo_explanation", kExplanationVersion},
              {"shape", {{"clusters", shape.clusters}, {"uniform_links", shape.uniform_links}}},
              {"rank", rank()},
              {"ranks", size()},
              {"network", to_json(facts)},
              {"channels", Channels::kCount},
              {"connections", connections},
              {"last_call", state.last ? to_json(*state.last, state.situation()) : Json()}}
      .dump();
}

}  // namespace tombolo::collectives
