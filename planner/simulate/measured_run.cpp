#include "planner/simulate/measured_run.h"

#include <algorithm>
#include <limits>
#include <nlohmann/json.hpp>
#include <tuple>
#include <utility>

#include "base/error.h"
#include "base/median.h"

namespace tombolo::planner {

namespace {

constexpr int kMostSteps = std::numeric_limits<int>::max();

/// Splits "host/nic".
std::pair<std::string, std::string> end_of(const JsonCursor& at) {
  const std::string text = at.text();
  const auto slash = text.find('/');
  if (slash == std::string::npos || slash == 0 || slash + 1 == text.size())
    at.reject("expected \"host/nic\"");
  return {text.substr(0, slash), text.substr(slash + 1)};
}

RankSeconds parse_seconds(const JsonCursor& at) {
  return {at.field("forward_seconds").positive_number(), at.field("backward_seconds").positive_number(),
          at.field("update_seconds").number_at_least(0)};
}

Json seconds_json(const RankSeconds& seconds) {
  return {{"forward_seconds", seconds.forward},
          {"backward_seconds", seconds.backward},
          {"update_seconds", seconds.update}};
}

ProcessorSeconds parse_processor(const JsonCursor& at) {
  at.only({"forward_seconds", "backward_seconds", "update_seconds", "sending_seconds"});
  return {parse_seconds(at), at.field("sending_seconds").number_at_least(0)};
}

MeasuredRun::Rank parse_rank(const JsonCursor& at) {
  at.only({"host", "stage", "replica", "forward_seconds", "backward_seconds", "update_seconds",
           "wait_seconds", "reduce_seconds", "processor", "clock"});
  MeasuredRun::Rank rank;
  rank.host = at.field("host").text();
  rank.stage = static_cast<int>(at.field("stage").integer(0, kMostSteps));
  rank.replica = static_cast<int>(at.field("replica").integer(0, kMostSteps));
  rank.seconds = parse_seconds(at);
  if (const auto wait = at.optional("wait_seconds")) rank.wait = wait->number_at_least(0);
  if (const auto reduce = at.optional("reduce_seconds")) rank.reduce = reduce->number_at_least(0);
  if (const auto clock = at.optional("clock"))
    rank.clock = clock->choice({"host", "device"}) == 0 ? PassClock::kHost : PassClock::kDevice;
  if (const auto processor = at.optional("processor")) rank.processor = parse_processor(*processor);
  return rank;
}

}  // namespace

int MeasuredRun::warm_up_of(int steps) noexcept {
  return steps < 2 ? 0 : std::max(1, steps / 5);
}

double MeasuredRun::median_step() const {
  return median({step_seconds.begin() + warm_up, step_seconds.end()});
}

MeasuredRun MeasuredRun::load(const std::string& path) {
  return parse(JsonDocument::load(path));
}

MeasuredRun MeasuredRun::parse(const JsonDocument& document) {
  const JsonCursor root = document.root();
  root.only({"tombolo_measured", "warm_up", "step_seconds", "ranks", "links"});
  const JsonCursor version = root.field("tombolo_measured");
  if (const auto found = version.integer(1, kMostSteps); found != kVersion)
    version.reject(fmt::format("version {} of the format; this build reads {}", found, kVersion));
  MeasuredRun run;
  for (const JsonCursor& step : root.field("step_seconds").elements())
    run.step_seconds.push_back(step.positive_number());
  if (run.step_seconds.empty()) root.field("step_seconds").reject("expected at least one step");
  if (const auto warm_up = root.optional("warm_up"))
    run.warm_up =
        static_cast<int>(warm_up->integer(0, static_cast<std::int64_t>(run.step_seconds.size()) - 1));
  for (const JsonCursor& rank : root.field("ranks").elements()) run.ranks.push_back(parse_rank(rank));
  if (run.ranks.empty()) root.field("ranks").reject("expected at least one rank");
  if (const auto links = root.optional("links"))
    for (const JsonCursor& item : links->elements()) {
      item.only({"from", "to", "bytes"});
      LinkBytes link;
      std::tie(link.from_host, link.from_nic) = end_of(item.field("from"));
      std::tie(link.to_host, link.to_nic) = end_of(item.field("to"));
      link.bytes = item.field("bytes").number_at_least(0);
      run.links.push_back(std::move(link));
    }
  return run;
}

Json MeasuredRun::to_json() const {
  Json json = {{"tombolo_measured", kVersion},
               {"warm_up", warm_up},
               {"step_seconds", step_seconds},
               {"ranks", Json::array()},
               {"links", Json::array()}};
  for (const Rank& rank : ranks) {
    Json item = seconds_json(rank.seconds);
    item["host"] = rank.host;
    item["stage"] = rank.stage;
    item["replica"] = rank.replica;
    item["wait_seconds"] = rank.wait;
    item["reduce_seconds"] = rank.reduce;
    if (rank.clock != PassClock::kHost) item["clock"] = pass_clock_name(rank.clock);
    if (rank.processor) {
      item["processor"] = seconds_json(rank.processor->computing);
      item["processor"]["sending_seconds"] = rank.processor->sending;
    }
    json["ranks"].push_back(std::move(item));
  }
  for (const LinkBytes& link : links)
    json["links"].push_back({{"from", link.from_host + "/" + link.from_nic},
                             {"to", link.to_host + "/" + link.to_nic},
                             {"bytes", link.bytes}});
  return json;
}

}  // namespace tombolo::planner
