#include "trainer/run/run_files.h"

#include <algorithm>
#include <functional>
#include <nlohmann/json.hpp>

#include "base/json.h"
#include "base/median.h"
#include "collectives/engine/gather_texts.h"
#include "planner/simulate/measured_run.h"

namespace tombolo::trainer {
namespace {

Json traffic_json(const std::vector<collectives::LinkTraffic>& links) {
  Json json = Json::array();
  for (const collectives::LinkTraffic& link : links)
    json.push_back({{"from_host", link.local_host},
                    {"from_nic", link.local_nic},
                    {"to_host", link.peer_host},
                    {"to_nic", link.peer_nic},
                    {"kind", topology::nic_kind_name(link.kind)},
                    {"transport", link.transport},
                    {"bytes", link.bytes_sent}});
  return json;
}

/// Sums the bytes of equal pairs of NICs over the ranks. Bytes are counted by the rank that sends them.
Json merge_traffic(const std::vector<std::string>& texts) {
  Json merged = Json::array();
  for (const std::string& text : texts)
    for (Json& link : parse_peer_json(text, "a rank's traffic")) {
      Json* same = nullptr;
      for (Json& other : merged)
        if (other["from_host"] == link["from_host"] && other["from_nic"] == link["from_nic"] &&
            other["to_host"] == link["to_host"] && other["to_nic"] == link["to_nic"] &&
            other["transport"] == link["transport"])
          same = &other;
      if (same == nullptr)
        merged.push_back(std::move(link));
      else
        (*same)["bytes"] = (*same)["bytes"].get<std::uint64_t>() + link["bytes"].get<std::uint64_t>();
    }
  return merged;
}

/// Collective: returns the texts of all ranks, by rank, on rank 0; nothing elsewhere.
std::vector<std::string> texts_of_all(collectives::Communicator* world, const std::string& own) {
  if (world == nullptr) return {own};
  return collectives::gather_texts(*world, own, collectives::GatherTo::kRankZero);
}

/// Collective: returns the traffic of all ranks, without what was sent before the first step, on rank 0;
/// nothing elsewhere.
Json traffic_of_all(const RunFacts& facts) {
  std::vector<collectives::LinkTraffic> links = facts.after;
  for (collectives::LinkTraffic& link : links)
    for (const collectives::LinkTraffic& old : facts.before)
      if (old.local_host == link.local_host && old.local_nic == link.local_nic &&
          old.peer_host == link.peer_host && old.peer_nic == link.peer_nic && old.transport == link.transport)
        link.bytes_sent -= old.bytes_sent;
  return merge_traffic(texts_of_all(facts.world, traffic_json(links).dump()));
}

bool is_rank_zero(const RunFacts& facts) {
  return facts.world == nullptr || facts.world->rank() == 0;
}

std::string host_of(const RunFacts& facts) {
  if (facts.world == nullptr) return {};
  return facts.world->members()[static_cast<std::size_t>(facts.world->rank())].host;
}

double over_passes(const Timeline& timeline) {
  return timeline.seconds(Activity::kForward) + timeline.seconds(Activity::kBackward) +
         timeline.seconds(Activity::kUpdate);
}

/// The medians of this rank's times over the steps after the warm-up.
planner::MeasuredRun::Rank own_medians(const RunFacts& facts, int warm_up) {
  const auto& steps = facts.timeline.steps();
  const auto of = [&](const auto& seconds_of) {
    std::vector<double> seconds;
    for (auto step = static_cast<std::size_t>(warm_up); step < steps.size(); ++step)
      seconds.push_back(seconds_of(steps[step]));
    return median(std::move(seconds));
  };
  const auto elapsed = [&](Activity activity) {
    return of([&](const StepSeconds& step) { return step.elapsed[static_cast<std::size_t>(activity)]; });
  };
  const auto processor = [&](Activity activity) {
    return of([&](const StepSeconds& step) { return step.processor[static_cast<std::size_t>(activity)]; });
  };
  planner::MeasuredRun::Rank rank;
  rank.host = host_of(facts);
  rank.stage = facts.trainer.coordinates().stage;
  rank.replica = facts.trainer.coordinates().replica;
  rank.seconds = {elapsed(Activity::kForward), elapsed(Activity::kBackward), elapsed(Activity::kUpdate)};
  rank.wait = elapsed(Activity::kWait);
  rank.reduce = elapsed(Activity::kReduce);
  rank.clock = facts.timeline.pass_clock();
  // A device's passes take no processor.
  if (rank.clock == planner::PassClock::kDevice) return rank;
  // Only one of the threads that share a matrix product is timed, so the time of the others would count as
  // sending.
  if (facts.trainer.threads() > 1) return rank;
  rank.processor.emplace();
  rank.processor->computing = {processor(Activity::kForward), processor(Activity::kBackward),
                               processor(Activity::kUpdate)};
  rank.processor->sending = of([](const StepSeconds& step) { return step.sending; });
  return rank;
}

}  // namespace

std::vector<LinkWait> gather_waits(const RunFacts& facts) {
  const int own_rank = facts.world == nullptr ? 0 : facts.world->rank();
  Json own = Json::array();
  for (const auto& [peer, seconds] : facts.timeline.waits()) own.push_back({own_rank, peer, seconds});
  std::vector<LinkWait> waits;
  for (const std::string& text : texts_of_all(facts.world, own.dump()))
    for (const Json& wait : parse_peer_json(text, "a rank's waits"))
      waits.push_back({wait[0], wait[1], wait[2]});
  std::ranges::sort(waits, std::greater<>(), &LinkWait::seconds);
  return facts.world == nullptr || facts.world->rank() == 0 ? waits : std::vector<LinkWait>{};
}

Json traffic_file(const RunFacts& facts) {
  Json links = traffic_of_all(facts);
  if (!is_rank_zero(facts)) return nullptr;
  return {{"steps", facts.step_seconds.size()}, {"links", std::move(links)}};
}

Json timeline_file(const RunFacts& facts) {
  const int rank = facts.world == nullptr ? 0 : facts.world->rank();
  const std::string host = facts.world == nullptr ? std::string() : " on " + host_of(facts);
  const RankCoordinates own_coordinates = facts.trainer.coordinates();
  const std::string label = fmt::format("rank {}: stage {}, replica {}{}", rank, own_coordinates.stage,
                                        own_coordinates.replica, host);
  const Json own{{"events", facts.timeline.events(rank, label)},
                 {"rank",
                  {{"rank", rank},
                   {"stage", own_coordinates.stage},
                   {"replica", own_coordinates.replica},
                   {"compute_clock", planner::pass_clock_name(facts.timeline.pass_clock())},
                   {"compute_seconds", over_passes(facts.timeline)},
                   {"wait_seconds", facts.timeline.seconds(Activity::kWait)},
                   {"reduce_seconds", facts.timeline.seconds(Activity::kReduce)}}}};
  const std::vector<std::string> texts = texts_of_all(facts.world, own.dump());
  if (texts.empty()) return nullptr;
  Json all{{"traceEvents", Json::array()}, {"displayTimeUnit", "ms"}};
  all["otherData"] = {{"steps", facts.step_seconds.size()}, {"ranks", Json::array()}};
  for (const std::string& text : texts) {
    Json part = parse_peer_json(text, "a rank's timeline");
    for (Json& event : part["events"]) all["traceEvents"].push_back(std::move(event));
    all["otherData"]["ranks"].push_back(std::move(part["rank"]));
  }
  return all;
}

Json measured_file(const RunFacts& facts) {
  const Json traffic = traffic_of_all(facts);
  planner::MeasuredRun own;
  own.step_seconds = facts.step_seconds;
  own.warm_up = planner::MeasuredRun::warm_up_of(static_cast<int>(own.step_seconds.size()));
  own.ranks.push_back(own_medians(facts, own.warm_up));
  const std::vector<std::string> texts = texts_of_all(facts.world, own.to_json().dump());
  if (texts.empty()) return nullptr;
  planner::MeasuredRun run = own;
  run.ranks.clear();
  for (std::size_t rank = 0; rank < texts.size(); ++rank) {
    const auto of_rank =
        planner::MeasuredRun::parse(JsonDocument::parse(texts[rank], fmt::format("rank {}", rank)));
    run.ranks.push_back(of_rank.ranks.front());
  }
  for (const Json& link : traffic) {
    // Bytes inside a host cross no NIC, and some connections are made but never used.
    if (link["from_host"] == link["to_host"] || link["bytes"] == 0) continue;
    run.links.push_back({link["from_host"], link["from_nic"], link["to_host"], link["to_nic"],
                         link["bytes"].get<double>() / static_cast<double>(own.step_seconds.size())});
  }
  return run.to_json();
}

}  // namespace tombolo::trainer
