#include "tools/demo/layer_speed.h"

#include <algorithm>

#include "base/error.h"
#include "tools/demo/options.h"
#include "tools/profile_ranks.h"

namespace tombolo::tools::demo {
namespace {

planner::LayerTimes layer(const planner::Profile& profile, int micro_batch) {
  const auto times = profile.times({}, profile.kind_of(0), 1, micro_batch);
  TOMBOLO_CHECK(times.has_value(), "micro_batch={}", micro_batch);
  return *times;
}

}  // namespace

planner::Profile measure_layers(const topology::ClusterFile& cluster, const std::vector<int>& micro_batches,
                                double seconds) {
  int ranks = 0;
  for (const topology::Host& host : cluster.hosts) ranks += static_cast<int>(host.devices.size());
  ProfileRequest request;
  request.model = demo_job().model;
  request.micro_batches = micro_batches;
  request.seconds = seconds;
  if (cluster.shared_processor) ranks = std::min(ranks, static_cast<int>(cluster.shared_processor->cores));
  planner::Profile profile;
  profile.model = request.model;
  profile.measurements = profile_here(request, ranks, {}).measurements;
  return profile;
}

planner::Profile median_of(const std::vector<planner::Profile>& profiles) {
  planner::Profile middle;
  std::vector<planner::Profile::Measurement> all;
  for (const planner::Profile& one : profiles) {
    middle.model = one.model;
    all.insert(all.end(), one.measurements.begin(), one.measurements.end());
  }
  middle.measurements = median_times(all);
  return middle;
}

double flops_per_second(const planner::Profile& profile, int micro_batch) {
  const planner::LayerTimes times = layer(profile, micro_batch);
  return 3.0 * micro_batch * demo_job().model.layer_forward_flops() / (times.forward + times.backward);
}

topology::ClusterFile with_speed(topology::ClusterFile cluster, const planner::Profile& profile,
                                 int micro_batch) {
  // Adam reads a parameter, its gradient and both moments and writes all but the gradient: 28 bytes; clearing
  // gradients and their norm are 8 more.
  const double bytes = 36.0 * static_cast<double>(demo_job().layer_parameters(0, 1));
  for (auto& host : cluster.hosts)
    for (auto& device : host.devices) {
      device.flops_per_second = flops_per_second(profile, micro_batch);
      device.memory_bytes_per_second = bytes / layer(profile, micro_batch).update;
    }
  return cluster;
}

}  // namespace tombolo::tools::demo
