// The log of a run, as the frameworks print it, and the measured run that it tells of.
#pragma once

#include <istream>
#include <string>
#include <vector>

#include "planner/plan/plan.h"
#include "planner/simulate/log_format.h"
#include "planner/simulate/measured_run.h"

namespace tombolo::planner {

struct TrainingLog {
  const LogFormat* format = nullptr;
  std::vector<LoggedStep> steps;   ///< those that tell of the run, in order; the first of them warm up
  LoggedJob job;                   ///< what the log says of the job
  std::vector<std::string> notes;  ///< what was left out, and why: whole sentences
};

/// Reads a log of Megatron-LM, Megatron Bridge, NeMo, torchtitan or DeepSpeed, which it tells apart by the
/// lines themselves: the format that most lines have is taken. What stands before a line's figures does not
/// matter (ranks' prefixes, times), nor do colours. Several ranks may print one step, some of them an
/// interval late; the first of them counts. Where the job was started again in the same log (its step numbers
/// go back by more than an interval, it says that it begins to train, or it tells of the job after a step),
/// the last start with at least 5 steps counts, else the longest. Steps that held other work (a skipped
/// update, a checkpoint that the clock did not leave out) count only where there are no others, and where the
/// batch grows, those with the last one. A line whose figures cannot be read is left out, as is a last line
/// without an end. Memory is as large as the log has steps, however long its lines are.
///
/// Throws kInvalidUsage, naming `name`, what was looked for and what to do, where no step can be read.
TrainingLog read_training_log(std::istream& log, const std::string& name);

/// The run of `plan` that a log tells of: tokens per second and device, and rows per second, become seconds
/// by the plan's batch, context and ranks. It has no ranks, for logs tell nothing of them. Its notes say
/// where the log is of another framework than the plan. Whether job and batch are the plan's, calibrate()
/// checks.
MeasuredRun run_of_log(const TrainingLog& log, const Plan& plan, const std::string& name);

/// Reads a run of `plan`: JSON that `tombolo train --measured` wrote, or a log. Throws kInvalidUsage naming
/// file and line.
MeasuredRun load_run(const std::string& path, const Plan& plan);

}  // namespace tombolo::planner
