// NeMo 2's lines in v2.4.0: ProgressPrinter (nemo/lightning/pytorch/callbacks/progress_printer.py) prints
// "name: value" between bars, means over its interval; MegatronProgressBar (progress_bar.py there) draws
// Lightning's bar anew, with "name=value" after it and a carriage return between. The step's seconds are
// those of TimingCallback (nemo/utils/exp_manager.py), which times training batches alone; the FLOP/s those
// of FLOPsMeasurementCallback (nemo/lightning/pytorch/callbacks/flops_callback.py), where a recipe has it.
#include <array>

#include "planner/simulate/log_format.h"

namespace tombolo::planner {

namespace {

constexpr std::string_view kStepTiming = "train_step_timing in s";
constexpr std::array kNeMosPrinters{Framework::kNeMo};

LogLine read_nemo_line(std::string_view text) {
  LogLine line;
  const auto timing = text.find(kStepTiming);
  if (timing == std::string_view::npos) return line;
  const std::string_view after = text.substr(timing + kStepTiming.size());
  const bool printed = after.starts_with(':'), drawn = after.starts_with('=');
  if (!printed && !drawn) return line;  // a warning about the callback
  LoggedStep step;
  step.seconds =
      figure_after(printed ? "train_step_timing in s:" : "train_step_timing in s=", text, true, line.problem);
  step.flops_per_second =
      1e12 * figure_after(printed ? "TFLOPS_per_GPU:" : "TFLOPS_per_GPU=", text, false, line.problem);
  step.batch = count_after(printed ? "global_batch_size:" : "global_batch_size=", text);
  step.number = step_number_after(printed ? "global_step:" : "global_step=", text);
  if (printed && step.number < 0) {  // the iterations of each epoch begin at 0
    step.epoch = step_number_after("epoch ", text);
    step.number = step_number_after("iteration ", text);
  }
  if (line.problem.empty()) line.step = step;
  return line;
}

}  // namespace

const LogFormat kNeMoLog{.title = "NeMo",
                         .mark = kStepTiming,
                         .printed = "by rank 0, where TimingCallback is among the trainer's callbacks",
                         .frameworks = kNeMosPrinters,
                         .read = read_nemo_line};

}  // namespace tombolo::planner
