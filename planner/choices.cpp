#include "planner/choices.h"

#include <algorithm>
#include <set>
#include <string_view>

#include "planner/plan/cluster_view.h"
#include "topology/files/library.h"

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

bool suits_tensor_overlap(const topology::ClusterFile& cluster) {
  // PCI Express 6.0 x16 carries no more than this; two GPUs of an NVLink switch of Hopper's 3.5 times as
  // much.
  constexpr double kNoNvlink = 1.3e11;
  const ClusterView view(cluster, "per-peer", {});
  std::set<std::string_view> names;
  for (std::size_t host = 0; host < cluster.hosts.size(); ++host) {
    const int index = static_cast<int>(host);
    if (!(view.path(index, index).bytes_per_second > kNoNvlink)) return false;
    for (const topology::Device& device : cluster.hosts[host].devices) {
      if (device.kind != topology::DeviceKind::kGpu) return false;
      names.insert(device.name);
    }
  }
  const topology::Library library = topology::Library::load();
  return std::ranges::all_of(names, [&](std::string_view name) {
    const auto known = library.device_names.find(name);
    if (!known) return false;
    const auto& device = library.devices[*known];
    return device.compute_capability >= 9 && device.switched;
  });
}

void open_choices(const FixedChoices& fixed, const topology::ClusterFile& cluster, bool memory_known,
                  Job& job, PlanOptions& options) {
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
  job.overlap_tensor = fixed.overlap_tensor.value_or(can.tensor_overlap && !can.tensor_overlap_compiles &&
                                                     job.sequence_parallel && job.model.experts == 0 &&
                                                     suits_tensor_overlap(cluster));
  job.recompute_layers = fixed.recompute_layers.value_or(can.some_layers_again ? Job::kAsNeeded : 0);
  job.overlap_parameters = fixed.overlap_parameters.value_or(can.parameter_gather_overlap);
  // What is said of 1F1B does not hold for GPipe, which only sends in one direction at a time.
  job.sends = fixed.schedule == Schedule::kGPipe ? StageSends::kBeside : can.sends;
}

}  // namespace tombolo::planner
