// Megatron-LM's lines, which its last rank prints every --log-interval steps: training_log() of
// megatron/training/training.py in core_v0.14.0. Megatron Bridge 0.3.0 prints the same (training_log() of
// src/megatron/bridge/training/utils/train_utils.py), and so do programs that took Megatron's loop to
// DeepSpeed. The times are means over the interval, without evaluation and checkpoints, for which the timer
// is stopped.
#include <array>

#include "planner/simulate/log_format.h"

namespace tombolo::planner {

namespace {

constexpr std::string_view kElapsed = "elapsed time per iteration (ms):";
constexpr std::array kMegatronsPrinters{Framework::kMegatron, Framework::kNeMo, Framework::kDeepSpeed};

LogLine read_megatron_line(std::string_view text) {
  LogLine line;
  if (text.find(kElapsed) == std::string_view::npos) {
    line.starts = text.find("[before the start of training step]") != std::string_view::npos;
    return line;
  }
  LoggedStep step;
  step.seconds = figure_after(kElapsed, text, true, line.problem) / 1e3;
  step.flops_per_second = 1e12 * figure_after("throughput per GPU (TFLOP/s/GPU):", text, false, line.problem);
  step.number = step_number_after("iteration ", text);
  step.batch = count_after("global batch size:", text);
  // A step whose gradients overflow, or are no numbers, has no update.
  step.apart = count_after("number of skipped iterations:", text) > 0 ||
               count_after("number of nan iterations:", text) > 0;
  if (line.problem.empty()) line.step = step;
  return line;
}

}  // namespace

const LogFormat kMegatronLog{.title = "Megatron-LM",
                             .mark = kElapsed,
                             .printed = "by the last rank, every --log-interval steps",
                             .frameworks = kMegatronsPrinters,
                             .read = read_megatron_line};

}  // namespace tombolo::planner
