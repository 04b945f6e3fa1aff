#include "tools/demo/options.h"

#include <algorithm>

#include "base/error.h"
#include "base/units.h"
#include "tools/emulation/emulation.h"

namespace tombolo::tools::demo {

namespace {

constexpr double kCompareSeconds = 30, kTrainSeconds = 20;

constexpr int kMostSteps = 1'000'000;

int fitting(double seconds, double step_seconds, int least, int most) {
  return static_cast<int>(std::clamp<double>(seconds / step_seconds, least, most));
}

}  // namespace

Rounds Options::rounds(double seconds) const {
  const int all = compare_steps.value_or(fitting(kCompareSeconds, seconds, 12, 30));
  Rounds result;
  result.rounds = std::clamp(all / 4, 1, more_plans ? 5 : 3);
  result.steps = (all + result.rounds - 1) / result.rounds;
  result.warm_up = result.steps >= 6 ? 2 : 1;
  return result;
}

int Options::long_run(double seconds) const {
  return steps.value_or(fitting(kTrainSeconds, seconds, 40, 200));
}

void Options::check() const {
  if (compare_steps && (*compare_steps < 2 || *compare_steps > kMostSteps))
    fail(Cause::kInvalidUsage, "--compare-steps {}: 2 to {} are possible, at least one of them to warm up",
         *compare_steps, kMostSteps);
  if (steps && (*steps < 1 || *steps > kMostSteps))
    fail(Cause::kInvalidUsage, "--steps {}: 1 to {} are possible", *steps, kMostSteps);
  if (ethernet && (*ethernet < kSlowestEthernet || *ethernet > kFastestEthernet))
    fail(Cause::kInvalidUsage, "--ethernet: {} cannot be emulated; {} to {} can",
         format_bit_rate(*ethernet / 8), format_bit_rate(kSlowestEthernet / 8),
         format_bit_rate(kFastestEthernet / 8));
  if (!(limit() > 0))
    fail(Cause::kInvalidUsage, "--seconds-limit {}: a number of seconds above 0 is needed", limit());
  if (out.empty()) fail(Cause::kInvalidUsage, "--out: a folder is needed");
  emulation::parse_mode(emulation_mode);
}

std::vector<int> micro_batches(const Options& options) {
  return options.more_plans ? std::vector{2, 4, 8, 16} : std::vector{demo_job().micro_batch};
}

planner::Job demo_job() {
  // A stage's gradients are 3.2 MB; a replica's activations at the border of its stages 0.5 MB each way. One
  // step computes 26 GFLOP: 0.15 to 0.6 s on two cores.
  planner::Job job;
  job.model.name = "demo";
  job.model.layers = 8;
  job.model.hidden = 128;
  job.model.heads = 4;
  job.model.context = 128;
  job.model.vocabulary = 256;
  job.global_batch = 16;
  job.micro_batch = 2;
  job.pipeline = 2;
  job.data = 2;
  return job;
}

}  // namespace tombolo::tools::demo
