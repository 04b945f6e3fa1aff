#include "tools/demo/layer_speed.h"

#include <algorithm>

#include "base/error.h"
#include "compute/cores.h"
#include "tools/demo/options.h"
#include "tools/launch/profile_ranks.h"

namespace tombolo::tools::demo {
namespace {

planner::LayerTimes layer(const planner::Profile& profile, int micro_batch) {
  const auto times = profile.times({}, profile.kind_of(0), 1, micro_batch);
  TOMBOLO_CHECK(times.has_value(), "micro_batch={}", micro_batch);
  return *times;
}

}  // namespace

planner::Profile measure_layers(const std::vector<int>& micro_batches, double seconds) {
  const planner::Job job = demo_job();
  ProfileRequest request;
  request.model = job.model;
  request.micro_batches = micro_batches;
  request.seconds = seconds;
  const int ranks = std::clamp(static_cast<int>(compute::usable_cores()), 1, job.pipeline * job.data);
  planner::Profile profile;
  profile.model = request.model;
  profile.measurements = profile_here(request, ranks, std::string()).measurements;
  return profile;
}

double flops_per_second(const planner::Profile& profile, int micro_batch) {
  const planner::LayerTimes times = layer(profile, micro_batch);
  return 3.0 * micro_batch * demo_job().model.layer_forward_flops() / (times.forward + times.backward);
}

topology::ClusterFile with_speed(topology::ClusterFile cluster, const planner::Profile& profile,
                                 int micro_batch) {
  // Adam reads a parameter, its gradient and both moments, and writes all but the gradient: 28 bytes.
  // Clearing gradients and their norm are 8 more.
  const double bytes = 36.0 * static_cast<double>(demo_job().layer_parameters(0, 1));
  for (auto& host : cluster.hosts)
    for (auto& device : host.devices) {
      device.flops_per_second = flops_per_second(profile, micro_batch);
      device.memory_bytes_per_second = bytes / layer(profile, micro_batch).update;
    }
  return cluster;
}

}  // namespace tombolo::tools::demo
