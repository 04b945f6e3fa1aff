#include "planner/model/profiled_cluster.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <limits>
#include <set>

#include "base/error.h"

namespace tombolo::planner {

namespace {

bool takes_part(const topology::Host& host, const std::vector<std::string>& hosts) {
  return hosts.empty() || std::ranges::find(hosts, host.name) != hosts.end();
}

std::string measured_devices(const Profile& profile) {
  std::set<std::string> names;
  for (const auto& one : profile.measurements)
    names.insert(one.device.empty() ? "any" : fmt::format("\"{}\"", one.device));
  return fmt::format("{}", fmt::join(names, ", "));
}

/// Tensor degree and rows of the measurement that says most about a device's speed for one kind of layer: the
/// one with the fewest ranks and the largest micro-batch. Rows 0: there is no measurement.
struct Extent {
  int tensor = std::numeric_limits<int>::max();
  int rows = 0;
};
Extent extent_of(const Profile& profile, std::string_view device, std::string_view kind) {
  Extent extent;
  for (const std::string_view name : {device, std::string_view()}) {
    for (const auto& one : profile.measurements) {
      if (one.device != name || one.kind != kind) continue;
      if (one.tensor < extent.tensor) extent = {one.tensor, 0};
      if (one.tensor == extent.tensor) extent.rows = std::max(extent.rows, one.micro_batch);
    }
    if (extent.rows > 0) break;
  }
  return extent;
}

/// The FLOP/s that the model's layers attain on this device. Throws where a kind of layer was not measured on
/// it.
double measured_flops(const Profile& profile, const Model& model, const topology::Host& host,
                      const topology::Device& device) {
  double flops = 0, seconds = 0;
  for (int layer = 0; layer < model.layers; ++layer) {
    const std::string_view kind = profile.kind_of(layer);
    const Extent extent = extent_of(profile, device.name, kind);
    if (extent.rows == 0)
      fail(Cause::kInvalidUsage,
           "profile: device \"{}\" (host {}) has no times of kind \"{}\"; measured are: {}. Run `tombolo "
           "profile` there, or give the device the name in the cluster file that it was measured by",
           device.name, host.name, kind, measured_devices(profile));
    const auto times = profile.times(device.name, kind, extent.tensor, extent.rows);
    flops += 3.0 * extent.rows * model.layer_forward_flops();
    seconds += extent.tensor * (times->forward + times->backward);
    if (profile.layers.empty()) break;  // all alike
  }
  for (const std::string_view part : {Profile::kEmbedding, Profile::kHead}) {
    const bool elsewhere =
        std::ranges::any_of(profile.measurements, [&](const auto& one) { return one.kind == part; });
    if (elsewhere && extent_of(profile, device.name, part).rows == 0)
      fail(Cause::kInvalidUsage,
           "profile: kind \"{}\" was measured, but not on device \"{}\" (host {}); measure it there too",
           part, device.name, host.name);
  }
  return seconds > 0 ? flops / seconds : 0;
}

}  // namespace

topology::ClusterFile profiled_cluster(const Profile& profile, const Model& model,
                                       topology::ClusterFile cluster, const std::vector<std::string>& hosts) {
  profile.check(model);
  for (topology::Host& host : cluster.hosts) {
    if (!takes_part(host, hosts)) continue;
    for (topology::Device& device : host.devices)
      if (const double flops = measured_flops(profile, model, host, device); flops > 0)
        device.flops_per_second = flops;
  }
  return cluster;
}

std::string extrapolation_note(const Profile& profile, const topology::ClusterFile& cluster,
                               const std::vector<std::string>& hosts, int micro_batch) {
  for (const topology::Host& host : cluster.hosts) {
    if (!takes_part(host, hosts)) continue;
    for (const topology::Device& device : host.devices)
      if (const auto rows = profile.micro_batches(device.name); !rows.empty() && micro_batch > rows.back())
        return fmt::format(
            "micro-batches of {} rows were not measured on device \"{}\": their times follow from those "
            "of {} rows, the largest that were, and of fewer",
            micro_batch, device.name, rows.back());
  }
  return {};
}

}  // namespace tombolo::planner
