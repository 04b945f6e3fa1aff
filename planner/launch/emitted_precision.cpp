#include "planner/launch/emitted_precision.h"

#include <fmt/format.h>

#include "base/error.h"
#include "topology/files/library.h"

namespace tombolo::planner {

namespace {

/// A GPU of the plan whose library entry has no such type; its host is empty where all have it.
struct Lacking {
  std::string host, device;
};

Lacking gpu_without(const Plan& plan, const topology::ClusterFile& cluster, std::string_view dtype) {
  const topology::Library library = topology::Library::load();
  for (const RankPlacement& place : plan.ranks) {
    const topology::Host* host = cluster.find_host(place.host);
    if (!host || static_cast<std::size_t>(place.device) >= host->devices.size()) continue;
    const topology::Device& device = host->devices[static_cast<std::size_t>(place.device)];
    if (device.kind != topology::DeviceKind::kGpu) continue;
    const auto known = library.device_names.find(device.name);
    if (known && library.devices[*known].peak(dtype) == 0) return {host->name, device.name};
  }
  return {};
}

}  // namespace

EmittedPrecision emitted_precision(const Plan& plan, const topology::ClusterFile& cluster) {
  const Precision wanted = plan.job.multiplies_in();
  if (is_fp8(wanted)) {
    if (const Lacking lacking = gpu_without(plan, cluster, "fp8"); !lacking.host.empty())
      fail(Cause::kUnsupported, "the plan multiplies in {}, which {} of host {} does not have; plan in bf16",
           precision_name(wanted), lacking.device, lacking.host);
  } else if (wanted == Precision::kBf16) {
    if (const Lacking lacking = gpu_without(plan, cluster, "bf16"); !lacking.host.empty())
      return {Precision::kFp16, fmt::format("fp16 and not bf16, which {} of host {} does not have.",
                                            lacking.device, lacking.host)};
  }
  return {wanted, {}};
}

}  // namespace tombolo::planner
