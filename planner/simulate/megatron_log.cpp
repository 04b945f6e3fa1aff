#include "planner/simulate/megatron_log.h"

#include <charconv>
#include <cmath>
#include <optional>
#include <string_view>
#include <vector>

#include "base/error.h"
#include "base/median.h"

namespace tombolo::planner {

namespace {

constexpr std::string_view kElapsed = "elapsed time per iteration (ms):",
                           kThroughput = "throughput per GPU (TFLOP/s/GPU):", kBatch = "global batch size:";

/// The number after a title; nothing where the line lacks that title.
std::optional<double> number_after(std::string_view title, std::string_view line, const std::string& where) {
  const auto begin = line.find(title);
  if (begin == std::string_view::npos) return std::nullopt;
  std::string_view rest = line.substr(begin + title.size());
  rest.remove_prefix(std::min(rest.find_first_not_of(' '), rest.size()));
  double number = 0;
  const auto [end, error] = std::from_chars(rest.data(), rest.data() + rest.size(), number);
  if (error != std::errc() || !std::isfinite(number) || number <= 0)
    fail(Cause::kInvalidUsage, "{}: \"{}\" is followed by \"{}\", expected a number > 0", where, title,
         rest.substr(0, 20));
  return number;
}

struct LoggedStep {
  double seconds = 0, flops_per_second = 0;
  int batch = 0;  ///< 0 where the line does not say it
};

}  // namespace

MeasuredRun read_megatron_log(std::istream& log, const std::string& name) {
  constexpr double kMostBatch = 1e9;
  std::vector<LoggedStep> steps;
  int number = 0;
  for (std::string line; std::getline(log, line);) {
    const std::string where = fmt::format("{}:{}", name, ++number);
    const auto milliseconds = number_after(kElapsed, line, where);
    if (!milliseconds) continue;
    LoggedStep& step = steps.emplace_back();
    step.seconds = *milliseconds / 1e3;
    step.flops_per_second = 1e12 * number_after(kThroughput, line, where).value_or(0);
    step.batch = static_cast<int>(std::min(kMostBatch, number_after(kBatch, line, where).value_or(0)));
  }
  if (steps.empty())
    fail(
        Cause::kInvalidUsage,
        "{}: neither JSON that `tombolo train --measured` wrote nor a log of Megatron-LM: no line has \"{}\"",
        name, kElapsed);
  MeasuredRun run;
  run.global_batch = steps.back().batch;
  std::vector<double> flops;
  for (const LoggedStep& step : steps)
    if (step.batch == run.global_batch) {
      run.step_seconds.push_back(step.seconds);
      flops.push_back(step.flops_per_second);
    }
  run.warm_up = MeasuredRun::warm_up_of(static_cast<int>(run.step_seconds.size()));
  run.flops_per_second = median({flops.begin() + run.warm_up, flops.end()});
  return run;
}

}  // namespace tombolo::planner
