#include "planner/launch/emitted_precision.h"

#include <fmt/format.h>

#include <algorithm>

#include "base/error.h"
#include "planner/plan/device_precision.h"

namespace tombolo::planner {

EmittedPrecision emitted_precision(const Plan& plan, const topology::ClusterFile& cluster) {
  const Precision wanted = plan.job.multiplies_in();
  const auto takes_part = [&](const std::string& host, int device) {
    return std::ranges::any_of(
        plan.ranks, [&](const RankPlacement& place) { return place.host == host && place.device == device; });
  };
  if (is_fp8(wanted)) {
    if (const auto lacking = gpu_without(cluster, "fp8", takes_part))
      fail(Cause::kUnsupported, "the plan multiplies in {}, which {} of host {} does not have; plan in bf16",
           precision_name(wanted), lacking->device, lacking->host);
  } else if (wanted == Precision::kBf16) {
    if (const auto lacking = gpu_without(cluster, "bf16", takes_part))
      return {Precision::kFp16, fmt::format("fp16 and not bf16, which {} of host {} does not have.",
                                            lacking->device, lacking->host)};
  }
  return {wanted, {}};
}

}  // namespace tombolo::planner
