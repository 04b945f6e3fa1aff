#include "trainer/run/train.h"

#include <cerrno>
#include <cstdio>
#include <filesystem>
#include <nlohmann/json.hpp>

#include "base/error.h"
#include "base/json.h"
#include "trainer/model/model_file.h"
#include "trainer/run/common_time_base.h"
#include "trainer/run/run_files.h"

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
    Json line{{"step", report.step},
              {"loss", report.loss},
              {"grad_norm", report.gradient_norm},
              {"tokens_per_second", report.tokens_per_second},
              {"step_seconds", report.seconds},
              {"learning_rate", learning_rate}};
    if (report.validation_loss) line["validation_loss"] = *report.validation_loss;
    if (std::fprintf(file_, "%s\n", line.dump().c_str()) < 0 || std::fflush(file_) != 0)
      fail_errno(errno, fmt::format("log {}: writing", path_));
  }

 private:
  std::string path_;
  std::FILE* file_ = nullptr;
};

/// Found out now rather than after an hour of training.
void check_folder(const std::string& path) {
  if (path.empty()) return;
  const std::filesystem::path parent = std::filesystem::absolute(path).parent_path();
  if (!std::filesystem::is_directory(parent))
    fail(Cause::kInvalidUsage, "cannot write {}: {} is not a folder", path, parent.string());
}

}  // namespace

TrainResult train(const TrainOptions& options, collectives::Communicator* world, const TrainHooks& hooks) {
  const bool rank_zero = world == nullptr || world->rank() == 0;
  const Job job = resolve(options);
  if (rank_zero)
    for (const std::string* path :
         {&options.log, &options.save, &options.timeline, &options.traffic, &options.measured})
      check_folder(*path);
  StepLog log(rank_zero ? options.log : std::string());

  const bool one_axis = world != nullptr && !options.timeline.empty();
  Timeline timeline(one_axis ? common_time_base(*world) : Clock::steady().now());
  timeline.keep(options.timeline_first, options.timeline.empty() ? 0 : options.timeline_steps);
  if (!options.measured.empty()) timeline.keep_steps();
  PipelineTrainer trainer(job, world, timeline);
  const std::vector<collectives::LinkTraffic> before = trainer.traffic();
  if (rank_zero && hooks.started) hooks.started(job, trainer.compute().memory());

  GenerateOptions sample = options.sample;
  sample.tokenizer = options.tokenizer;
  Evaluation evaluation(options.evaluation, job, options.steps, sample, rank_zero, trainer, hooks.sampled,
                        hooks.stop_requested);
  TrainResult result;
  std::vector<double> step_seconds;
  while (result.steps < options.steps && !result.interrupted) {
    StepReport report = trainer.step(result.steps, hooks.stop_requested && hooks.stop_requested());
    ++result.steps;
    step_seconds.push_back(report.seconds);
    result.interrupted = report.interrupted;
    evaluation.after_step(report);
    if (!rank_zero) continue;
    log.write(report, learning_rate_at(job.optimizer, report.step));
    if (hooks.stepped) hooks.stepped(report);
  }
  const RunFacts facts{world, trainer, timeline, before, step_seconds};
  if (!options.traffic.empty()) write_traffic(options.traffic, facts);
  if (!options.timeline.empty()) write_timeline(options.timeline, facts);
  if (!options.measured.empty() && result.steps > 0) write_measured(options.measured, facts);

  const bool sampling = options.sample.tokens > 0 && !result.interrupted;
  std::vector<float> all;
  if (!options.save.empty() || sampling) all = trainer.gather();
  // No rank leaves while another still sends. Only rank 0 does what follows, and it may take longer than the
  // deadline of a collective: that is why the barrier stands before it.
  if (world != nullptr) world->barrier();
  if (rank_zero && !options.save.empty()) write_model(options.save, job.shape, all, ValueType::kFloat32);
  evaluation.finish();
  if (rank_zero && sampling) {
    result.shape = job.shape;
    result.parameters = std::move(all);
  }
  return result;
}

}  // namespace tombolo::trainer
