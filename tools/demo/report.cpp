#include "tools/demo/report.h"

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>

#include "base/error.h"
#include "tools/reports/html.h"
#include "tools/reports/timeline.h"

namespace tombolo::tools::demo {
namespace {

Json link_json(const LinkUse& link) {
  return {{"from_host", link.from_host},
          {"from_nic", link.from_nic},
          {"to_host", link.to_host},
          {"to_nic", link.to_nic},
          {"kind", topology::nic_kind_name(link.kind)},
          {"bytes", link.bytes},
          {"bytes_per_step", link.bytes_per_step}};
}

Json run_json(const Run& run) {
  Json links = Json::array();
  for (const auto& link : run.links) links.push_back(link_json(link));
  Json ranks = Json::array();
  for (const auto& place : run.plan.ranks) {
    ranks.push_back({{"host", place.host}, {"stage", place.stage}, {"replica", place.replica}});
  }
  Json layers = Json::array();
  for (const auto& stage : run.plan.stages()) layers.push_back(stage.layers);
  return {{"name", run.name},
          {"title", run.title},
          {"strategy", run.plan.strategy},
          {"routing", run.plan.routing},
          {"ranks", ranks},
          {"layers_by_stage", layers},
          {"tokens_per_second", run.tokens_per_second},
          {"predicted_step_seconds", run.predicted.step_seconds},
          {"measured_step_seconds", run.measured_step_seconds},
          {"prediction_error", run.prediction_error()},
          {"step_seconds", run.step_seconds},
          {"predicted_round_seconds", run.predicted_rounds},
          {"round_seconds", run.round_seconds},
          {"loss", run.loss},
          {"links", links}};
}

double ratio(const std::vector<Run>& runs, std::size_t over, std::size_t under) {
  if (runs.size() <= std::max(over, under) || runs[under].tokens_per_second <= 0) return 0;
  return runs[over].tokens_per_second / runs[under].tokens_per_second;
}

}  // namespace

double Run::prediction_error() const noexcept {
  if (measured_step_seconds <= 0) return 0;
  return (predicted.step_seconds - measured_step_seconds) / measured_step_seconds;
}

std::string Run::prediction_error_text() const {
  int percent = static_cast<int>(std::lround(prediction_error() * 100));
  return percent == 0 ? "0 %" : fmt::format("{:+d} %", percent);
}

double Report::speedup() const noexcept {
  return ratio(runs, 2, 0);
}

double Report::speedup_from_placement() const noexcept {
  return ratio(runs, 2, 1);
}

const Run& Report::fastest() const {
  TOMBOLO_CHECK(!runs.empty(), "runs={}", runs.size());
  return *std::ranges::max_element(runs, {}, &Run::tokens_per_second);
}

double Report::largest_loss_difference() const noexcept {
  double largest = 0;
  for (const auto& a : runs) {
    for (const auto& b : runs) {
      std::size_t steps = std::min(a.loss.size(), b.loss.size());
      for (std::size_t step = 0; step < steps; ++step) {
        largest = std::max(largest, std::fabs(a.loss[step] - b.loss[step]));
      }
    }
  }
  return largest;
}

std::string Report::loss_agreement() const {
  double difference = largest_loss_difference();
  if (difference == 0) return "are equal to the last bit";
  if (difference <= kLossTolerance) return fmt::format("differ by at most {:.1e}", difference);
  return fmt::format("differ by up to {:.1e}, which is more than it should be", difference);
}

double Report::largest_prediction_error() const noexcept {
  double largest = 0;
  for (const auto* list : {&runs, &more})
    for (const auto& run : *list) largest = std::max(largest, std::fabs(run.prediction_error()));
  return largest;
}

bool Report::order_as_predicted(double tie) const {
  std::vector<const Run*> all;
  for (const auto* list : {&runs, &more})
    for (const Run& run : *list) all.push_back(&run);
  const auto faster = [tie](const Run& a, const Run& b) {
    return a.measured_step_seconds * (1 + tie) < b.measured_step_seconds;
  };
  for (const Run* a : all)
    for (const Run* b : all)
      if (faster(*a, *b) && a->predicted.step_seconds >= b->predicted.step_seconds) return false;
  return true;
}

std::vector<std::string> Report::remarks() const {
  std::vector<std::string> all;
  for (const auto& run : runs) {
    if (std::fabs(run.prediction_error()) <= kPredictionTolerance) continue;
    all.push_back(fmt::format("the prediction for '{}' is off by {}, more than {:.0f} %", run.title,
                              run.prediction_error_text(), kPredictionTolerance * 100));
  }
  if (speedup() < kExpectedSpeedup)
    all.push_back(
        fmt::format("a speedup of at least {:.1f}x was expected, not {:.2f}x", kExpectedSpeedup, speedup()));
  if (speedup_from_placement() <= kExpectedSpeedupFromPlacement) {
    all.push_back(fmt::format("the placement alone was expected to give more than {:.1f}x, not {:.2f}x",
                              kExpectedSpeedupFromPlacement, speedup_from_placement()));
  }
  if (!all.empty()) {
    all.emplace_back(
        "other work that comes or goes while the demo runs does this, and so do few steps: try again when "
        "the machine is idle");
  }
  return all;
}

Json Report::to_json() const {
  Json run_list = Json::array();
  for (const auto& run : runs) run_list.push_back(run_json(run));
  Json more_list = Json::array();
  for (const auto& run : more) more_list.push_back(run_json(run));
  Json model = Json::object();
  if (!runs.empty()) {
    const auto& job = runs.front().plan.job;
    model = {{"layers", job.model.layers},         {"width", job.model.hidden},
             {"heads", job.model.heads},           {"context", job.model.context},
             {"vocabulary", job.model.vocabulary}, {"parameters", job.model.parameters()},
             {"global_batch", job.global_batch},   {"micro_batch", job.micro_batch},
             {"pipeline", job.pipeline},           {"data", job.data}};
  }
  double difference = largest_loss_difference();
  return {{"version", 1},
          {"emulated", cluster.emulated},
          {"runs", run_list},
          {"speedup", speedup()},
          {"speedup_from_placement", speedup_from_placement()},
          {"largest_prediction_error", largest_prediction_error()},
          {"more_runs", more_list},
          {"order_as_predicted", order_as_predicted()},
          {"remarks", remarks()},
          {"files", files},
          {"loss", loss},
          {"train_seconds", train_seconds},
          {"loss_agreement",
           {{"largest_difference", difference},
            {"tolerance", kLossTolerance},
            {"agree", difference <= kLossTolerance}}},
          {"sample", sample},
          {"model", model},
          {"data", {{"source", data}, {"bytes", data_bytes}}},
          {"compute",
           {{"matrix_products", products},
            {"flops_per_second", flops_per_second},
            {"cores", cores},
            {"step_seconds", computing_seconds}}},
          {"rates",
           {{"ethernet_bits_per_second", rates.ethernet},
            {"fast_bits_per_second", rates.fast},
            {"given", rates.given}}},
          {"warm_up_steps", warm_up_steps},
          {"cluster", cluster.to_json()},
          {"environment",
           {{"kernel", environment.kernel},
            {"processor", environment.processor},
            {"cores", environment.cores},
            {"memory_bytes", environment.memory_bytes},
            {"compiler", environment.compiler},
            {"version", environment.version},
            {"commit", environment.commit},
            {"emulation", environment.emulation},
            {"emulation_reason", environment.emulation_reason},
            {"started", environment.started},
            {"demo_seconds", environment.demo_seconds}}}};
}

Json Report::to_chrome_trace() const {
  Json events = Json::array();
  int process = 0;
  auto add = [&](const std::string& name, const Run& run, const std::vector<planner::Span>& spans) {
    if (spans.empty()) return;
    ++process;
    events.push_back({{"ph", "M"}, {"name", "process_name"}, {"pid", process}, {"args", {{"name", name}}}});
    // Two rows per rank: viewers nest bars that overlap in one row, and transfers overlap computing.
    for (std::size_t row = 0; row < 2 * run.plan.ranks.size(); ++row) {
      const auto& place = run.plan.ranks[row / 2];
      auto title = fmt::format("rank {} on {}, stage {}, replica {}: {}", row / 2, place.host, place.stage,
                               place.replica, row % 2 == 0 ? "computing" : "network");
      events.push_back({{"ph", "M"},
                        {"name", "thread_name"},
                        {"pid", process},
                        {"tid", row},
                        {"args", {{"name", title}}}});
    }
    for (const auto& span : spans) {
      events.push_back({{"ph", "X"},
                        {"name", span.name},
                        {"cat", "tombolo"},
                        {"pid", process},
                        {"tid", 2 * span.rank + (is_transfer(span) ? 1 : 0)},
                        {"ts", span.begin_seconds * 1e6},
                        {"dur", (span.end_seconds - span.begin_seconds) * 1e6},
                        {"args", {{"micro_batch", span.micro_batch}}}});
    }
  };
  for (const auto& run : runs) {
    add(run.title + " (predicted)", run, run.predicted.spans);
    add(run.title + " (measured)", run, run.measured);
  }
  return {{"displayTimeUnit", "ms"}, {"traceEvents", events}};
}

}  // namespace tombolo::tools::demo
