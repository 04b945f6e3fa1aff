#include "trainer/run/run_checkpoints.h"

#include <fmt/ranges.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <filesystem>
#include <limits>
#include <nlohmann/json.hpp>
#include <random>

#include "base/error.h"
#include "base/json.h"
#include "trainer/checkpoint/restore.h"
#include "trainer/run/run_settings.h"

namespace tombolo::trainer {
namespace {

/// A wait that is shorter is not worth a line.
constexpr double kWaitWorthTelling = 0.01;
/// A killed process still has to give back its memory, and that of its GPU, before its lock is free.
constexpr Duration kWaitForEndingRun = std::chrono::seconds(2);

/// Where in the training data the next step begins, and all that this depends on.
Json data_position(const Job& job, const PipelineTrainer& trainer, std::int64_t step) {
  Json position{{"step", step},
                {"batch", job.parallel.global_batch},
                {"context", job.shape.context},
                {"data_tokens", trainer.rows().source().size()}};
  if (job.order.shuffle_seed) position["shuffle"] = *job.order.shuffle_seed;
  return position;
}

/// Collective. Throws on every rank where one has trouble.
void check_folder(const std::string& folder, collectives::Communicator* world) {
  std::string trouble;
  std::error_code error;
  std::filesystem::create_directories(folder, error);
  if (error)
    trouble = error.message();
  else if (::access(folder.c_str(), W_OK | X_OK) != 0)
    trouble = errno_text(errno);
  const std::vector<std::string> troubles = texts_of_ranks(trouble, world);
  for (std::size_t rank = 0; rank < troubles.size(); ++rank)
    if (!troubles[rank].empty())
      fail(Cause::kInvalidUsage, "--checkpoint {}: rank {} cannot write there: {}", folder, rank,
           troubles[rank]);
}

/// A number that no other start of any run has; equal on all ranks.
std::uint64_t draw_attempt(collectives::Communicator* world) {
  std::random_device random;
  std::uint64_t attempt = (std::uint64_t{random()} << 32) | random();
  if (world != nullptr) world->broadcast(&attempt, &attempt, 1, collectives::DataType::kUint64, 0);
  return attempt;
}

/// True for one that a run would lose something by ignoring.
bool matters(const FoundCheckpoint& found) {
  return found.condition != CheckpointCondition::kIncomplete || found.whole_before;
}

std::string texts_of(const std::vector<FoundCheckpoint>& found) {
  std::vector<std::string> texts;
  for (const FoundCheckpoint& one : found) texts.push_back("  " + one.text());
  return fmt::format("{}", fmt::join(texts, "\n"));
}

Log only_where(bool here, const Log& log) {
  return here ? log : Log();
}

}  // namespace

void CheckpointOptions::check() const {
  if (every < 1) fail(Cause::kInvalidUsage, "--every {} is below 1 step", every);
  if (keep < 1) fail(Cause::kInvalidUsage, "--keep {} is below 1 checkpoint", keep);
  if (resume == kResumeAuto && folder.empty())
    fail(Cause::kInvalidUsage,
         "--resume auto goes on from the newest checkpoint in the folder that --checkpoint "
         "names, but there is no --checkpoint");
}

RunCheckpoints::RunCheckpoints(const CheckpointOptions& options, const Job& job, PipelineTrainer& trainer,
                               collectives::Communicator* world, FileSystem& files, const Log& log)
    : job_(job),
      trainer_(trainer),
      world_(world),
      files_(files),
      log_(only_where(world == nullptr || world->rank() == 0, log)),
      rank_log_(log),
      folder_(options.folder),
      every_(options.every) {
  options.check();
  try {
    start(options);
  } catch (const Error&) {
    // Every rank finds the same. Leaving in order keeps the others from reporting that this one failed.
    if (world_ != nullptr && !world_->failure_cause()) world_->finalize();
    throw;
  }
}

void RunCheckpoints::start(const CheckpointOptions& options) {
  if (!folder_.empty() || !options.resume.empty()) settings_ = run_settings(job_, trainer_.rows().source());
  if (!folder_.empty()) {
    check_folder(folder_, world_);
    lock_folder();
    found_ = survey_checkpoints(folder_, job_.shape, world_, files_);
  }
  if (options.resume.empty())
    refuse_to_displace();
  else if (options.resume == kResumeAuto)
    resume_newest();
  else
    resume_from(options.resume);
  begun_ = first_step_;
  if (!folder_.empty()) saver_ = make_saver(options, rank_log_);
}

void RunCheckpoints::lock_folder() {
  std::string trouble;
  if (world_ == nullptr || world_->rank() == 0) {
    try {
      lock_ = std::make_unique<RunLock>(folder_, files_, kWaitForEndingRun, log_);
    } catch (const Error& error) {
      trouble = error.what();
    }
  }
  const std::vector<std::string> troubles = texts_of_ranks(trouble, world_);
  if (!troubles[0].empty()) fail(Cause::kInvalidUsage, "{}", troubles[0]);
}

void RunCheckpoints::refuse_to_displace() const {
  if (std::ranges::none_of(found_, matters)) return;
  fail(Cause::kInvalidUsage,
       "--checkpoint {} holds checkpoints, which those of a new run would displace:\n{}\nTo go on from the "
       "newest "
       "that is whole, say --resume auto; for a new run, name another folder or remove these",
       folder_, texts_of(found_));
}

void RunCheckpoints::resume_newest() {
  for (FoundCheckpoint& found : found_)
    if (found.condition == CheckpointCondition::kDamaged || found.condition == CheckpointCondition::kOther)
      log_.warning("the checkpoint of {}: left out", found.text());
  for (FoundCheckpoint& found : found_) {
    if (found.condition == CheckpointCondition::kIncomplete)
      log_.info("the checkpoint of {}: never completed, or not all of it is here; left out", found.text());
    if (found.condition != CheckpointCondition::kWhole) continue;
    if (restore(found, folder_)) return;
    log_.warning("the checkpoint of {}: taking the one before", found.text());
  }
  if (std::ranges::any_of(found_, matters))
    fail(Cause::kInvalidUsage,
         "--resume auto: no checkpoint in {} can be used:\n{}\nBring back what is missing, or begin anew in "
         "another "
         "folder",
         folder_, texts_of(found_));
  log_.info("no checkpoint in {}: a new run", folder_);
}

void RunCheckpoints::resume_from(const std::string& folder) {
  std::filesystem::path path = std::filesystem::absolute(folder).lexically_normal();
  if (!path.has_filename()) path = path.parent_path();  // "folder/"
  const auto id = parse_folder_name(path.filename().string());
  if (!id)
    fail(Cause::kInvalidUsage,
         "--resume {}: the folder of a checkpoint is called step-STEP-ATTEMPT, as in {}; for the newest in a "
         "run's "
         "folder say --checkpoint FOLDER --resume auto",
         folder, folder_name({100, 0x0123456789abcdef}));
  const std::string root = path.parent_path().string();
  std::vector<FoundCheckpoint> found = survey_checkpoints(root, job_.shape, world_, files_, id);
  if (found.empty()) fail(Cause::kInvalidUsage, "--resume {}: no rank sees such a folder", folder);
  if (found[0].condition != CheckpointCondition::kWhole || !restore(found[0], root))
    fail(Cause::kInvalidUsage, "--resume {}: it cannot be used: {}", folder, found[0].text());
}

bool RunCheckpoints::restore(FoundCheckpoint& found, const std::string& root) {
  const TimePoint begin = Clock::steady().now();
  const RestoreResult result = restore_checkpoint(found, root, trainer_.compute(), world_, files_);
  if (!result.faults.empty()) {
    found.condition = CheckpointCondition::kDamaged;
    found.faults = result.faults;
    return false;
  }
  if (found.id.step > std::numeric_limits<int>::max())
    fail(Cause::kInvalidUsage, "the checkpoint of {} is of a later step than this build counts",
         found.text());
  first_step_ = static_cast<int>(found.id.step);
  restored_ = found.id;
  log_.info("going on from step {}: {}/{}, written by {} ranks, read {} in {:.1f} s", first_step_, root,
            folder_name(found.id), found.ranks,
            result.read_directly ? "by every rank itself" : "over the network",
            to_seconds(Clock::steady().now() - begin));
  const Json then = Json::parse(result.data_position), now = data_position(job_, trainer_, found.id.step);
  if (then != now)
    log_.warning(
        "the checkpoint's place in the training data was {}, but is {} now: this run reads other rows than "
        "the one that it goes on from",
        then.dump(), now.dump());
  const std::string changes = changed_settings(Json::parse(result.settings), settings_);
  if (!changes.empty())
    log_.warning("this run has other settings than the one that it goes on from: {}", changes);
  return true;
}

std::unique_ptr<CheckpointSaver> RunCheckpoints::make_saver(const CheckpointOptions& options,
                                                            const Log& log) {
  SaverOptions saver;
  saver.root = folder_;
  saver.keep = options.keep;
  saver.attempt = draw_attempt(world_);
  saver.shard = {world_ == nullptr ? 0 : world_->rank(), job_.parallel.ranks()};
  saver.replica = trainer_.coordinates().replica;
  saver.replicas = job_.parallel.replicas;
  saver.shape = job_.shape;
  saver.settings = settings_.dump();
  for (auto found = found_.rbegin(); found != found_.rend(); ++found) {  // oldest first
    saver.generation = std::max(saver.generation, found->generation + 1);
    if (found->condition == CheckpointCondition::kWhole) saver.whole.push_back(found->id);
    // Another model's may be another run's.
    if (found->condition == CheckpointCondition::kIncomplete ||
        found->condition == CheckpointCondition::kDamaged)
      saver.leftovers.push_back(found->id);
  }
  return std::make_unique<CheckpointSaver>(std::move(saver), trainer_.compute().layout(), files_, log);
}

bool RunCheckpoints::begins_after(const StepReport& report) const noexcept {
  // What ends the run is saved by finish().
  return saver_ && (report.step + 1) % every_ == 0 && !report.interrupted;
}

void RunCheckpoints::after_step(const StepReport& report) {
  if (!saver_) return;
  saver_->count(report.votes);
  if (begins_after(report)) begin(report.step + 1);
}

void RunCheckpoints::begin(int next_step) {
  if (saver_->unsettled()) {
    const TimePoint begin = Clock::steady().now();
    settle(*saver_, world_);
    const double seconds = to_seconds(Clock::steady().now() - begin);
    if (seconds >= kWaitWorthTelling)
      log_.warning(
          "training stood still for {:.2f} s before the checkpoint of step {}, until that of step {} was "
          "written; a "
          "larger --every or a faster disk avoids that",
          seconds, next_step, begun_);
  }
  saver_->begin(next_step, trainer_.compute(), data_position(job_, trainer_, next_step).dump());
  begun_ = next_step;
}

bool RunCheckpoints::finish(int next_step) {
  if (!saver_) return true;
  if (next_step == first_step_) {  // a run that had been finished, perhaps not to its last removal
    if (first_step_ > 0 && !saver_->whole().empty() && saver_->whole().back() == restored_) saver_->tidy();
    return true;
  }
  if (begun_ != next_step) {
    settle(*saver_, world_);  // not worth a line: nothing waits for it
    begin(next_step);
  }
  settle(*saver_, world_);
  return saver_->whole_step() == next_step;
}

}  // namespace tombolo::trainer
