#include "planner/choices.h"

#include <algorithm>

namespace tombolo::planner {

namespace {

template <typename Range, typename Value>
bool is_among(const Range& range, const Value& value) {
  return std::ranges::find(range, value) != range.end();
}

std::vector<std::pair<Schedule, int>> open_schedules(const FixedChoices& fixed, const FrameworkTraits& can) {
  std::vector<std::pair<Schedule, int>> schedules;
  const auto interleave = [&](Schedule schedule) {
    for (const int chunks : fixed.chunks > 0 ? std::vector{fixed.chunks} : std::vector{2, 4})
      schedules.emplace_back(schedule, chunks);
  };
  if (fixed.schedule && interleaves(*fixed.schedule)) {
    interleave(*fixed.schedule);
  } else if (fixed.schedule) {
    schedules = {{*fixed.schedule, std::max(1, fixed.chunks)}};
  } else {
    // GPipe is never faster than 1F1B and holds more.
    if (fixed.chunks <= 1) schedules = {{Schedule::kOneForwardOneBackward, 1}};
    if (fixed.chunks <= 1 && is_among(can.schedules, Schedule::kZeroBubbleH1))
      schedules.emplace_back(Schedule::kZeroBubbleH1, 1);
    if (fixed.chunks > 1 || (fixed.chunks == 0 && is_among(can.schedules, Schedule::kInterleaved)))
      interleave(Schedule::kInterleaved);
    if (fixed.chunks != 1 && is_among(can.schedules, Schedule::kInterleavedZeroBubble))
      interleave(Schedule::kInterleavedZeroBubble);
  }
  return schedules;
}

}  // namespace

void open_choices(const FixedChoices& fixed, bool memory_known, Job& job, PlanOptions& options) {
  const FrameworkTraits& can = traits(job.framework);
  options.savings.clear();
  for (Saving saving : savings_of(job)) {
    if (fixed.recompute)
      saving.recompute = *fixed.recompute;
    else if (!memory_known && saving.recompute != Recompute::kNone)
      continue;
    if (fixed.sharding) saving.sharding = *fixed.sharding;
    if (!is_among(options.savings, saving)) options.savings.push_back(saving);
  }
  options.schedules = open_schedules(fixed, can);
  job.sequence_parallel = fixed.sequence_parallel.value_or(can.sequence_parallel && job.tensor != 1);
  job.overlap_tensor = fixed.overlap_tensor.value_or(false);
  options.overlap_by_devices = !fixed.overlap_tensor && can.tensor_overlap && !can.tensor_overlap_compiles &&
                               job.sequence_parallel && job.model.experts == 0;
  job.recompute_layers = fixed.recompute_layers.value_or(can.some_layers_again ? Job::kAsNeeded : 0);
  job.overlap_parameters = fixed.overlap_parameters.value_or(can.parameter_gather_overlap);
  // What is said of 1F1B does not hold for GPipe, which only sends in one direction at a time.
  job.sends = fixed.schedule == Schedule::kGPipe ? StageSends::kBeside : can.sends;
}

}  // namespace tombolo::planner
