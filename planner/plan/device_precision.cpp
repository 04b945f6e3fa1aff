#include "planner/plan/device_precision.h"

#include "base/error.h"
#include "topology/files/library.h"

namespace tombolo::planner {

std::optional<LackingGpu> gpu_without(const topology::ClusterFile& cluster, std::string_view dtype,
                                      const std::function<bool(const std::string&, int)>& counts) {
  const topology::Library library = topology::Library::load();
  for (const topology::Host& host : cluster.hosts)
    for (std::size_t i = 0; i < host.devices.size(); ++i) {
      const topology::Device& device = host.devices[i];
      if (device.kind != topology::DeviceKind::kGpu || !counts(host.name, static_cast<int>(i))) continue;
      const auto known = library.device_names.find(device.name);
      if (known && library.devices[*known].peak(dtype) == 0) return LackingGpu{host.name, device.name};
    }
  return std::nullopt;
}

Precision precision_on(const topology::ClusterFile& cluster, const Job& job,
                       const std::function<bool(const std::string&, int)>& counts) {
  const Precision wanted = job.multiplies_in();
  if (job.framework == Framework::kTombolo || wanted != Precision::kBf16) return wanted;
  const auto lacking = gpu_without(cluster, "bf16", counts);
  if (!lacking) return wanted;
  if (const FrameworkTraits& can = traits(job.framework); !can.fp16)
    fail(Cause::kUnsupported,
         "{} has no fp16, which stands for bf16 on {} of host {}, which has no bf16; plan in fp32 (--dtype "
         "fp32), without such hosts (--order, --ranks, --may-leave-out), or for another framework",
         can.title, lacking->device, lacking->host);
  return Precision::kFp16;
}

}  // namespace tombolo::planner
