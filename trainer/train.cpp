#include "trainer/train.h"

#include <cerrno>
#include <cstdio>
#include <filesystem>
#include <nlohmann/json.hpp>

#include "base/error.h"
#include "base/json.h"
#include "collectives/gather_texts.h"
#include "trainer/checkpoint.h"

namespace tombolo::trainer {
namespace {

/// JSON lines; does nothing without a path.
class StepLog {
 public:
  explicit StepLog(const std::string& path) : path_(path) {
    if (path.empty()) return;
    file_ = std::fopen(path.c_str(), "we");
    if (file_ == nullptr) fail_errno(errno, fmt::format("log {}: creating", path));
  }
  ~StepLog() {
    if (file_ != nullptr) std::fclose(file_);
  }
  StepLog(const StepLog&) = delete;
  StepLog& operator=(const StepLog&) = delete;

  void write(const StepReport& report, double learning_rate) {
    if (file_ == nullptr) return;
    const Json line{{"step", report.step},
                    {"loss", report.loss},
                    {"grad_norm", report.gradient_norm},
                    {"tokens_per_second", report.tokens_per_second},
                    {"step_seconds", report.seconds},
                    {"learning_rate", learning_rate}};
    if (std::fprintf(file_, "%s\n", line.dump().c_str()) < 0 || std::fflush(file_) != 0)
      fail_errno(errno, fmt::format("log {}: writing", path_));
  }

 private:
  std::string path_;
  std::FILE* file_ = nullptr;
};

/// Better now than after an hour of training.
void check_folder(const std::string& path) {
  if (path.empty()) return;
  const std::filesystem::path parent = std::filesystem::absolute(path).parent_path();
  if (!std::filesystem::is_directory(parent))
    fail(Cause::kInvalidUsage, "cannot write {}: {} is not a folder", path, parent.string());
}

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

/// Sums equal pairs of NICs over the ranks: what one sends is counted where it is sent.
Json merge_traffic(const std::vector<std::string>& texts) {
  Json merged = Json::array();
  for (const std::string& text : texts)
    for (Json& link : Json::parse(text)) {
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

/// Collective: by rank on rank 0, empty elsewhere.
std::vector<std::string> texts_of_all(collectives::Communicator* world, const std::string& own) {
  if (world == nullptr) return {own};
  return collectives::gather_texts(*world, own, collectives::GatherTo::kRankZero);
}

void write_traffic(const std::string& path, collectives::Communicator* world, const PipelineTrainer& trainer,
                   const std::vector<collectives::LinkTraffic>& before, int steps) {
  std::vector<collectives::LinkTraffic> links = trainer.traffic();
  // Without what was sent before the first step.
  for (collectives::LinkTraffic& link : links)
    for (const collectives::LinkTraffic& old : before)
      if (old.local_host == link.local_host && old.local_nic == link.local_nic &&
          old.peer_host == link.peer_host && old.peer_nic == link.peer_nic && old.transport == link.transport)
        link.bytes_sent -= old.bytes_sent;
  const std::vector<std::string> texts = texts_of_all(world, traffic_json(links).dump());
  if (texts.empty()) return;
  write_json_file(path, {{"steps", steps}, {"links", merge_traffic(texts)}});
}

void write_timeline(const std::string& path, collectives::Communicator* world, const PipelineTrainer& trainer,
                    const Timeline& timeline, int steps) {
  const int rank = world == nullptr ? 0 : world->rank();
  const std::string host =
      world == nullptr ? std::string() : " on " + world->members()[static_cast<std::size_t>(rank)].host;
  const Place place = trainer.place();
  const std::string label =
      fmt::format("rank {}: stage {}, replica {}{}", rank, place.stage, place.replica, host);
  const Json own{{"events", timeline.events(rank, label)},
                 {"rank",
                  {{"rank", rank},
                   {"stage", place.stage},
                   {"replica", place.replica},
                   {"compute_seconds", timeline.seconds(Activity::kCompute)},
                   {"wait_seconds", timeline.seconds(Activity::kWait)},
                   {"reduce_seconds", timeline.seconds(Activity::kReduce)}}}};
  const std::vector<std::string> texts = texts_of_all(world, own.dump());
  if (texts.empty()) return;
  Json all{{"traceEvents", Json::array()}, {"displayTimeUnit", "ms"}};
  all["otherData"] = {{"steps", steps}, {"ranks", Json::array()}};
  for (const std::string& text : texts) {
    Json part = Json::parse(text);
    for (Json& event : part["events"]) all["traceEvents"].push_back(std::move(event));
    all["otherData"]["ranks"].push_back(std::move(part["rank"]));
  }
  write_json_file(path, all);
}

}  // namespace

TrainResult train(const TrainOptions& options, collectives::Communicator* world, const TrainHooks& hooks) {
  const bool chief = world == nullptr || world->rank() == 0;
  const Job job = resolve(options);
  if (chief)
    for (const std::string* path : {&options.log, &options.save, &options.timeline, &options.traffic})
      check_folder(*path);
  StepLog log(chief ? options.log : std::string());

  // Ranks leave the barrier within one latency of each other; that is how well their time axes agree.
  if (world != nullptr) world->barrier();
  Timeline timeline(Clock::steady().now());
  timeline.keep(options.timeline_first, options.timeline.empty() ? 0 : options.timeline_steps);
  PipelineTrainer trainer(job, world, timeline);
  const std::vector<collectives::LinkTraffic> before = trainer.traffic();
  if (chief && hooks.started) hooks.started(job, trainer.compute().memory());

  TrainResult result;
  while (result.steps < options.steps && !result.interrupted) {
    const StepReport report = trainer.step(result.steps, hooks.stop_requested && hooks.stop_requested());
    ++result.steps;
    result.interrupted = report.interrupted;
    if (!chief) continue;
    log.write(report, learning_rate_at(job.optimizer, report.step));
    if (hooks.stepped) hooks.stepped(report);
  }
  if (!options.traffic.empty()) write_traffic(options.traffic, world, trainer, before, result.steps);
  if (!options.timeline.empty()) write_timeline(options.timeline, world, trainer, timeline, result.steps);

  const bool sampling = options.sample.bytes > 0 && !result.interrupted;
  std::vector<float> all;
  if (!options.save.empty() || sampling) all = trainer.gather();
  // Nobody leaves while another still sends. What follows is rank 0's alone and may take longer than any rank
  // would wait for another.
  if (world != nullptr) world->barrier();
  if (chief && !options.save.empty()) write_checkpoint(options.save, job.shape, all);
  if (chief && sampling) {
    result.shape = job.shape;
    result.parameters = std::move(all);
  }
  return result;
}

}  // namespace tombolo::trainer
