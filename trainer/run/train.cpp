#include "trainer/run/train.h"

#include <exception>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <utility>

#include "base/error.h"
#include "base/json.h"
#include "trainer/model/model_file.h"
#include "trainer/report/scalar_log.h"
#include "trainer/report/utilisation.h"
#include "trainer/run/common_time_base.h"
#include "trainer/run/run_checkpoints.h"
#include "trainer/run/run_files.h"
#include "trainer/run/step_log.h"
#include "trainer/run/validation.h"

namespace tombolo::trainer {
namespace {

/// Found out now rather than after an hour of training.
void check_folder(const std::string& path) {
  if (path.empty()) return;
  const std::filesystem::path parent = std::filesystem::absolute(path).parent_path();
  if (!std::filesystem::is_directory(parent))
    fail(Cause::kInvalidUsage, "cannot write {}: {} is not a folder", path, parent.string());
}

/// A file about the run, until it is its turn to be written.
struct SideFile {
  std::string path;
  Json content;
};

/// Collective: the files that are asked for; on rank 0 with their content.
std::vector<SideFile> side_files(const TrainOptions& options, const RunFacts& facts) {
  std::vector<SideFile> files;
  if (!options.traffic.empty()) files.push_back({options.traffic, traffic_file(facts)});
  if (!options.timeline.empty()) files.push_back({options.timeline, timeline_file(facts)});
  if (!options.measured.empty() && !facts.step_seconds.empty())
    files.push_back({options.measured, measured_file(facts)});
  return files;
}

/// What failed; empty where the file is written.
std::string write_side_file(const SideFile& file) {
  try {
    write_json_file(file.path, file.content);
  } catch (const Error& error) {
    return error.what();
  }
  return {};
}

}  // namespace

TrainResult train(const TrainOptions& options, const Job& job, collectives::Communicator* world,
                  const TrainHooks& hooks) {
  const bool rank_zero = world == nullptr || world->rank() == 0;
  if (rank_zero)
    for (const std::string* path :
         {&options.log, &options.save, &options.timeline, &options.traffic, &options.measured})
      check_folder(*path);

  const bool one_axis = world != nullptr && !options.timeline.empty();
  Timeline timeline(one_axis ? common_time_base(*world) : Clock::steady().now());
  timeline.keep(options.timeline_first, options.timeline.empty() ? 0 : options.timeline_steps);
  if (!options.measured.empty()) timeline.keep_steps();
  PipelineTrainer trainer(job, world, timeline);
  FileSystem disk;
  RunCheckpoints checkpoints(options.checkpoints, job, trainer, world, disk, hooks.log);
  StepLog log(rank_zero ? options.log : std::string(), checkpoints.first_step(), disk, hooks.log);
  ScalarLog scalars(rank_zero ? options.tensorboard : std::string(), checkpoints.first_step(), hooks.log);
  const std::vector<collectives::LinkTraffic> before = trainer.traffic();
  if (rank_zero && hooks.started) hooks.started(job, trainer.compute());

  if (rank_zero && checkpoints.first_step() > 0 && checkpoints.first_step() >= options.steps)
    hooks.log.info("all {} steps have been made already", options.steps);

  Validation validation(options.evaluation, job, options.steps, trainer);
  GenerateOptions sample = options.sample;
  sample.tokenizer = options.tokenizer;
  Sampling samples(options.evaluation.sample_every, job.shape, sample, rank_zero, trainer, hooks.sampled,
                   hooks.stop_requested, hooks.log);
  TrainResult result;
  std::vector<double> step_seconds;
  int next_step = checkpoints.first_step();
  while (next_step < options.steps && !result.interrupted) {
    const bool stop = hooks.stop_requested && hooks.stop_requested();
    StepReport report = trainer.step(next_step, stop, checkpoints.votes());
    ++next_step;
    ++result.steps;
    step_seconds.push_back(report.seconds);
    result.interrupted = report.interrupted;
    validation.after_step(report);
    // Before the checkpoint that follows the step: a run that goes on from it keeps the line.
    const StepFigures figures{learning_rate_at(job.optimizer, report.step),
                              utilisation(job.shape, report.tokens_per_second, options.peak)};
    log.write(report, figures);
    scalars.write(report, figures);
    if (checkpoints.begins_after(report)) log.sync();
    checkpoints.after_step(report);
    samples.after_step(report);
    if (rank_zero && hooks.stepped) hooks.stepped(report);
  }
  trainer.finish_timeline();
  const std::vector<collectives::LinkTraffic> after = trainer.traffic();
  log.sync();
  result.checkpointed = checkpoints.finish(next_step);

  const bool sampling = options.sample.tokens > 0 && !result.interrupted;
  std::vector<float> all;
  if (!options.save.empty() || sampling) all = trainer.gather();
  const RunFacts facts{world, trainer, timeline, before, after, step_seconds};
  const std::vector<SideFile> files = side_files(options, facts);
  result.waits = gather_waits(facts);
  for (const double seconds : step_seconds) result.seconds += seconds;
  // No rank leaves while another still sends. Only rank 0 does what follows, and it may take longer than the
  // deadline of a collective: that is why the barrier stands before it.
  if (world != nullptr) world->barrier();
  if (!rank_zero) return result;
  std::exception_ptr save_failure;
  try {
    if (!options.save.empty()) write_model(options.save, job.shape, all, ValueType::kFloat32);
  } catch (const Error&) {
    save_failure = std::current_exception();
  }
  if (!log.fine()) result.unwritten.push_back(fmt::format("{}: it ends early", options.log));
  if (!scalars.fine()) result.unwritten.push_back(fmt::format("{}: it ends early", options.tensorboard));
  for (const SideFile& file : files) {
    const std::string failure = write_side_file(file);
    if (!failure.empty()) result.unwritten.push_back(failure);
  }
  samples.finish();
  if (save_failure) std::rethrow_exception(save_failure);
  if (sampling) {
    result.shape = job.shape;
    result.parameters = std::move(all);
  }
  return result;
}

}  // namespace tombolo::trainer
