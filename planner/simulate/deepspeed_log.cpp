// DeepSpeed's lines in v0.19.5, both every "steps_per_print" steps of its configuration: rank 0 of
// PipelineEngine (train_batch() of deepspeed/runtime/pipe/engine.py) prints the mean of these steps, and the
// engine without a pipeline, where the program lets DeepSpeed's logger tell, the rate of the last one
// (ThroughputTimer of deepspeed/utils/timer.py). Neither counts what the program does between two steps. That
// an update was skipped is said by deepspeed/runtime/fp16/loss_scaler.py.
#include <array>
#include <cmath>

#include "planner/simulate/log_format.h"

namespace tombolo::planner {

namespace {

constexpr std::string_view kIterationTime = "iter time (s):", kRate = "CurrSamplesPerSec=",
                           kOverflow = "OVERFLOW!";
constexpr std::array kDeepSpeedsPrinters{Framework::kDeepSpeed};

/// Rows per step, from seconds and rows per second that were both printed to thousandths; 0 where these leave
/// more than one number.
int batch_of(double seconds, double rows_per_second) {
  constexpr double kRounding = 0.0005, kMost = 1e9, kUnlike = 0.5;
  const double rows = seconds * rows_per_second;
  const double error = kRounding * (seconds + rows_per_second);
  return rows >= kUnlike && rows < kMost && error < kUnlike ? static_cast<int>(std::lround(rows)) : 0;
}

LogLine read_pipeline_line(std::string_view text) {
  LogLine line;
  if (text.find(kIterationTime) == std::string_view::npos) {
    line.disturbs = text.find(kOverflow) != std::string_view::npos;
    return line;
  }
  LoggedStep step;
  step.seconds = figure_after(kIterationTime, text, true, line.problem);
  step.batch = batch_of(step.seconds, figure_after("samples/sec:", text, false, line.problem));
  step.number = step_number_after("steps:", text);
  if (line.problem.empty()) line.step = step;
  return line;
}

LogLine read_timer_line(std::string_view text) {
  LogLine line;
  if (text.find(kRate) == std::string_view::npos) {
    line.disturbs = text.find(kOverflow) != std::string_view::npos;
    return line;
  }
  LoggedStep step;
  step.rows_per_second = figure_after(kRate, text, true, line.problem);
  step.number = step_number_after("global_step=", text);
  if (line.problem.empty()) line.step = step;
  return line;
}

}  // namespace

const LogFormat kDeepSpeedPipelineLog{
    .title = "DeepSpeed's pipeline engine",
    .mark = kIterationTime,
    .printed = "by rank 0, every \"steps_per_print\" steps of its configuration",
    .frameworks = kDeepSpeedsPrinters,
    .read = read_pipeline_line};

const LogFormat kDeepSpeedTimerLog{
    .title = "DeepSpeed's throughput timer",
    .mark = kRate,
    .printed = "by every rank whose program lets DeepSpeed's logger tell, every \"steps_per_print\" steps",
    .frameworks = kDeepSpeedsPrinters,
    .read = read_timer_line};

}  // namespace tombolo::planner
