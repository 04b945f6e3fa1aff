#include "planner/simulate/training_log.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <filesystem>
#include <fstream>
#include <system_error>

#include "base/error.h"
#include "base/median.h"
#include "planner/simulate/log_lines.h"

namespace tombolo::planner {

namespace {

constexpr std::array kFormats{&kMegatronLog, &kNeMoLog, &kTorchTitanLog, &kDeepSpeedPipelineLog,
                              &kDeepSpeedTimerLog};
constexpr std::size_t kEnoughSteps = 5;  // of a start that tells more than its warm-up

/// A part of a log that one start of the job wrote.
struct LoggedStart {
  std::vector<LoggedStep> steps;
  LoggedJob job;

  std::size_t undisturbed() const {
    return static_cast<std::size_t>(std::ranges::count(steps, false, &LoggedStep::apart));
  }
};

/// What one format finds in a log.
class FoundInLog {
 public:
  explicit FoundInLog(const LogFormat& format) : format_(&format) {}

  void add(std::string_view text, std::uint64_t number) {
    LogLine line = format_->read(text);
    const bool tells_of_job = line.job.batch > 0 || line.job.context > 0 || line.job.devices > 0;
    if (line.starts || tells_of_job) begin_start();  // it is said of the job before its first step
    if (line.disturbs) disturbed_ = true;
    LoggedJob& job = starts_.back().job;
    if (line.job.batch > 0) job.batch = line.job.batch;
    if (line.job.context > 0) job.context = line.job.context;
    if (line.job.devices > 0) job.devices = line.job.devices;
    if (!line.problem.empty() && unreadable_++ == 0)
      first_problem_ = fmt::format("line {}: {}", number, line.problem);
    if (line.step) {
      line.step->line = number;
      add_step(*line.step);
    }
  }

  const LogFormat& format() const noexcept { return *format_; }
  std::size_t steps() const noexcept { return steps_; }
  std::uint64_t unreadable() const noexcept { return unreadable_; }
  const std::string& first_problem() const noexcept { return first_problem_; }
  const std::vector<LoggedStart>& starts() const noexcept { return starts_; }

  /// The last start that has enough steps, else the longest; of equally long ones the last.
  const LoggedStart& telling_start() const {
    const LoggedStart* longest = &starts_.front();
    for (const LoggedStart& one : starts_)
      if (!one.steps.empty() && one.undisturbed() >= std::min(kEnoughSteps, longest->undisturbed()))
        longest = &one;
    return *longest;
  }

 private:
  /// Several ranks may say so, and what they say of the job before a step belongs to the new start.
  void begin_start() {
    disturbed_ = false;
    if (!starts_.back().steps.empty()) starts_.push_back({{}, starts_.back().job});
  }

  void add_step(LoggedStep step) {
    const auto& known = starts_.back().steps;
    if (!known.empty() && step.number >= 0 && !step.follows(known.back())) {
      // Ranks print each step, and one of them may lag by an interval.
      if (!known[known.size() - std::min<std::size_t>(known.size(), 2)].follows(step)) return;
      begin_start();
    }
    step.apart |= disturbed_;
    disturbed_ = false;
    starts_.back().steps.push_back(step);
    ++steps_;
  }

  const LogFormat* format_;
  std::vector<LoggedStart> starts_ = std::vector<LoggedStart>(1);
  std::size_t steps_ = 0;
  std::uint64_t unreadable_ = 0;
  std::string first_problem_;
  bool disturbed_ = false;
};

[[noreturn]] void refuse_log(const std::string& name, const std::vector<FoundInLog>& found,
                             const LogLines& lines) {
  for (const FoundInLog& one : found)
    if (one.unreadable() > 0)
      fail(Cause::kInvalidUsage,
           "{}: {} of steps that {} printed, and none that can be read; {}. Give the log as it was printed",
           name, counted(static_cast<std::int64_t>(one.unreadable()), "line"), one.format().title,
           one.first_problem());
  std::string wanted;
  for (const LogFormat* one : kFormats)
    wanted +=
        fmt::format("{} \"{}\" ({}, {})", wanted.empty() ? "" : ";", one->mark, one->title, one->printed);
  fail(Cause::kInvalidUsage,
       "{}: neither JSON that `tombolo train --measured` wrote nor a log whose steps can be read: of {}{} "
       "none "
       "has{}. Give the output of the rank that prints these",
       name, counted(static_cast<std::int64_t>(lines.number()), "line"),
       lines.unfinished() ? " (the last has no end, and does not count)" : "", wanted);
}

/// Leaves out the steps that hold other work than a step, and those with another batch than the last, where
/// others remain.
void keep_like_steps(TrainingLog& log) {
  auto& steps = log.steps;
  const auto apart = static_cast<std::size_t>(std::ranges::count(steps, true, &LoggedStep::apart));
  if (apart > 0 && apart < steps.size()) {
    std::erase_if(steps, [](const LoggedStep& step) { return step.apart; });
    log.notes.push_back(
        fmt::format("{} of steps left out, in which an update was skipped or a checkpoint saved.",
                    counted(static_cast<std::int64_t>(apart), "line")));
  }
  for (const LoggedStep& step : steps)
    if (step.batch > 0) log.job.batch = step.batch;
  const bool told = std::ranges::any_of(steps, [](const LoggedStep& step) { return step.batch > 0; });
  if (told)
    std::erase_if(steps,
                  [&](const LoggedStep& step) { return step.batch > 0 && step.batch != log.job.batch; });
}

/// The seconds of a step.
double seconds_of(const LoggedStep& step, const Plan& plan) {
  const double rows = plan.job.global_batch;
  if (step.tokens_per_second > 0)
    return rows * plan.job.model.context / (step.tokens_per_second * static_cast<double>(plan.ranks.size()));
  return step.rows_per_second > 0 ? rows / step.rows_per_second : step.seconds;
}

}  // namespace

TrainingLog read_training_log(std::istream& log, const std::string& name) {
  std::vector<FoundInLog> found;
  for (const LogFormat* format : kFormats) found.emplace_back(*format);
  LogLines lines(log);
  for (std::string line; lines.next(line);)
    for (FoundInLog& one : found) one.add(line, lines.number());
  const auto most = std::ranges::max_element(found, {}, &FoundInLog::steps);
  if (most->steps() == 0) refuse_log(name, found, lines);
  TrainingLog read;
  read.format = &most->format();
  const LoggedStart& start = most->telling_start();
  read.steps = start.steps;
  read.job = start.job;
  if (most->starts().size() > 1)
    read.notes.push_back(
        fmt::format("The job was started {} times in it (or several outputs follow each other); the start "
                    "whose steps begin in "
                    "line {} counts.",
                    most->starts().size(), start.steps.front().line));
  if (most->unreadable() > 0)
    read.notes.push_back(fmt::format("{} of steps left out, which cannot be read; the first is {}.",
                                     counted(static_cast<std::int64_t>(most->unreadable()), "line"),
                                     most->first_problem()));
  keep_like_steps(read);
  return read;
}

MeasuredRun run_of_log(const TrainingLog& log, const Plan& plan, const std::string& name) {
  MeasuredRun run;
  run.global_batch = log.job.batch;
  run.context = log.job.context;
  run.devices = log.job.devices;
  run.notes = log.notes;
  std::vector<double> flops;
  for (const LoggedStep& step : log.steps) {
    run.step_seconds.push_back(seconds_of(step, plan));
    flops.push_back(step.flops_per_second);
  }
  run.warm_up = MeasuredRun::warm_up_of(static_cast<int>(run.step_seconds.size()));
  run.flops_per_second = median({flops.begin() + run.warm_up, flops.end()});
  if (std::ranges::find(log.format->frameworks, plan.job.framework) == log.format->frameworks.end())
    run.notes.push_back(
        fmt::format("The lines of {} are those of {}, and the plan is for {}: is it a log of this plan?",
                    name, log.format->title, traits(plan.job.framework).title));
  return run;
}

MeasuredRun load_run(const std::string& path, const Plan& plan) {
  std::error_code ignored;
  if (std::filesystem::is_directory(path, ignored))
    fail(Cause::kInvalidUsage, "{}: is a folder; give the log's file", path);
  std::ifstream file(path, std::ios::binary);
  if (!file) fail(Cause::kInvalidUsage, "{}: cannot open", path);
  char first = 0;
  file >> first;  // skips space
  if (first == '{') return MeasuredRun::load(path);
  file.clear();
  file.seekg(0);
  return run_of_log(read_training_log(file, path), plan, path);
}

}  // namespace tombolo::planner
