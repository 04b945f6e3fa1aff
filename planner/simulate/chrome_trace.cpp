#include <nlohmann/json.hpp>

#include "planner/simulate/simulator.h"

namespace tombolo::planner {

Json to_chrome_trace(const Simulation& simulation, const Plan& plan) {
  // Each rank is a process; compute and communication are on threads of their own, because they overlap.
  constexpr int kCompute = 0, kSend = 1, kReduce = 2;
  Json events = Json::array();
  for (std::size_t rank = 0; rank < plan.ranks.size(); ++rank) {
    const RankPlacement& place = plan.ranks[rank];
    const auto name = [&](const char* what, int thread, const std::string& text) {
      events.push_back(
          {{"ph", "M"}, {"pid", rank}, {"tid", thread}, {"name", what}, {"args", {{"name", text}}}});
    };
    name("process_name", kCompute,
         fmt::format("rank {} ({}, stage {}, replica {})", rank, place.host, place.stage, place.replica));
    name("thread_name", kCompute, "compute");
    name("thread_name", kSend, "send");
    name("thread_name", kReduce, "gradient reduction");
    events.push_back({{"ph", "M"},
                      {"pid", rank},
                      {"tid", kCompute},
                      {"name", "process_sort_index"},
                      {"args", {{"sort_index", place.stage * plan.data_size() + place.replica}}}});
  }
  for (const Span& span : simulation.spans) {
    const int thread = span.name == "send" ? kSend : span.name == "all-reduce" ? kReduce : kCompute;
    Json event = {{"ph", "X"},
                  {"pid", span.rank},
                  {"tid", thread},
                  {"name", span.name},
                  {"ts", span.begin_seconds * 1e6},  // the format counts microseconds
                  {"dur", (span.end_seconds - span.begin_seconds) * 1e6}};
    if (span.micro_batch >= 0) event["args"] = {{"micro_batch", span.micro_batch}};
    events.push_back(std::move(event));
  }
  return {{"traceEvents", std::move(events)}, {"displayTimeUnit", "ms"}};
}

}  // namespace tombolo::planner
