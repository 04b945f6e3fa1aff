// torchtitan's lines in v0.2.2: MetricsProcessor (torchtitan/components/metrics.py) prints a step, in
// colours, after the first step and every --metrics.log_freq steps, with the tokens per second and device
// since its line before; the clock goes on while checkpoints are saved (torchtitan/components/checkpoint.py),
// and begins anew after a validation. Trainer (torchtitan/train.py) says the batch and the row's tokens,
// ParallelDims (torchtitan/distributed/parallel_dims.py) into how many devices the job is divided.
#include <array>

#include "planner/simulate/log_format.h"

namespace tombolo::planner {

namespace {

constexpr std::string_view kTokens = "tps:";
constexpr std::array kTorchTitansPrinters{Framework::kTorchTitan};

/// The number of devices, from a line of the degrees of parallelism; 0 for another line. Experts are divided
/// among ranks that are counted already.
int devices_of_mesh(std::string_view text) {
  if (text.find("Building device mesh with parallelism:") == std::string_view::npos) return 0;
  double devices = 1;
  for (const std::string_view degree : {"pp=", "dp_replicate=", "dp_shard=", " cp=", " tp="})
    devices *= count_after(degree, text);
  constexpr double kMostDevices = 1e9;
  return devices <= kMostDevices ? static_cast<int>(devices) : 0;
}

LogLine read_torchtitan_line(std::string_view text) {
  LogLine line;
  const auto tokens = text.find(kTokens);
  const std::string_view before = text.substr(0, tokens);
  if (tokens == std::string_view::npos || before.find("step:") == std::string_view::npos) {
    line.starts = text.find("Training starts at step") != std::string_view::npos;
    line.disturbs = text.find("Saving the checkpoint") != std::string_view::npos;
    line.job.devices = devices_of_mesh(text);
    if (text.find("Trainer is initialized with") != std::string_view::npos) {
      line.job.batch = count_after("global batch size ", text);
      line.job.context = count_after("sequence length ", text);
    }
    return line;
  }
  if (before.find("validate step:") != std::string_view::npos) return line;
  LoggedStep step;
  step.tokens_per_second = figure_after(kTokens, text, true, line.problem);
  step.flops_per_second = 1e12 * figure_after("tflops:", text, false, line.problem);
  step.number = step_number_after("step:", text);
  if (line.problem.empty()) line.step = step;
  return line;
}

}  // namespace

const LogFormat kTorchTitanLog{.title = "torchtitan",
                               .mark = kTokens,
                               .printed = "by every rank, every --metrics.log_freq steps",
                               .frameworks = kTorchTitansPrinters,
                               .read = read_torchtitan_line};

}  // namespace tombolo::planner
