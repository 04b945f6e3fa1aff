#include "planner/cost/reserve.h"

#include <algorithm>

namespace tombolo::planner {

double reserved_memory(const Job& job, const topology::Device& device) noexcept {
  constexpr double kContext = 1024.0 * 1024 * 1024, kShare = 0.039;
  if (device.kind != topology::DeviceKind::kGpu) return 0;
  if (job.reserve_bytes) return *job.reserve_bytes;
  if (job.profile && job.profile->overhead_bytes > 0) return 0;
  return kContext + kShare * device.memory_bytes;
}

double usable_memory(const Job& job, const topology::Device& device) noexcept {
  if (device.memory_bytes <= 0) return 0;
  return std::max(1.0, device.memory_bytes - reserved_memory(job, device));
}

}  // namespace tombolo::planner
