#include "planner/launch/framework_environment.h"

#include <fmt/format.h>

#include "topology/files/library.h"

namespace tombolo::planner {

namespace {

// What NVIDIA's software calls the generations.
constexpr double kHopper = 9, kBlackwell = 10;

/// A device of the plan of which the library does not say that it is `wanted`; empty where there is none.
template <typename Wanted>
std::string device_that_is_not(const Wanted& wanted, const Plan& plan, const topology::ClusterFile& cluster) {
  const topology::Library library = topology::Library::load();
  for (const RankPlacement& place : plan.ranks) {
    const topology::Host* host = cluster.find_host(place.host);
    if (!host || static_cast<std::size_t>(place.device) >= host->devices.size()) continue;
    const topology::Device& device = host->devices[static_cast<std::size_t>(place.device)];
    const auto known = library.device_names.find(device.name);
    if (!known || !wanted(library.devices[*known])) return device.name;
  }
  return {};
}

/// Megatron Core relies on one hardware queue for the order in which kernels start, and Megatron-LM's
/// programs refuse to start without. Its FSDP, which no plan takes, refuses to start with it.
std::string one_hardware_queue(const Plan& plan, const topology::ClusterFile& cluster,
                               std::string_view framework) {
  const Job& job = plan.job;
  if ((job.tensor <= 1 && job.context_parallel <= 1) || job.sharding > Sharding::kOptimizer) return {};
  const std::string device = device_that_is_not(
      [](const auto& known) { return known.compute_capability >= kBlackwell; }, plan, cluster);
  if (device.empty()) return {};
  return fmt::format(
      "# {} wants one hardware queue where ranks share layers or rows ({} tensor, {} context) on GPUs "
      "before\n"
      "# Blackwell ({}), so that an exchange starts before the products that hide it. Its FSDP, which this\n"
      "# plan does not take, would want more.\n"
      "export CUDA_DEVICE_MAX_CONNECTIONS=\"${{CUDA_DEVICE_MAX_CONNECTIONS:-1}}\"\n",
      framework, job.tensor, job.context_parallel, device);
}

/// From release 1.9 on Transformer Engine's exchanges beside products refuse to start on GPUs without
/// multicast unless this is set; then they go by CUDA IPC. Releases 1.6 to 1.8 do that unasked.
std::string without_multicast(const Plan& plan, const topology::ClusterFile& cluster) {
  if (!plan.job.overlap_tensor || plan.job.tensor <= 1) return {};
  const std::string device = device_that_is_not(
      [](const auto& known) { return known.compute_capability >= kHopper && known.switched; }, plan, cluster);
  if (device.empty()) return {};
  return fmt::format(
      "# {} is not known to have multicast, as GPUs have from Hopper on where NVLink switches join them. "
      "Without it "
      "Transformer\n"
      "# Engine's exchanges beside products only start where they are told to go by CUDA IPC.\n"
      "export UB_SKIPMC=\"${{UB_SKIPMC:-1}}\"\n",
      device);
}

}  // namespace

std::string framework_environment(const Plan& plan, const topology::ClusterFile& cluster,
                                  Framework framework) {
  switch (framework) {
    case Framework::kMegatron:
    case Framework::kNeMo:
      return one_hardware_queue(plan, cluster, traits(framework).title) + without_multicast(plan, cluster);
    case Framework::kTorchTitan:  // its tensor parallelism and FSDP order kernels by events
    case Framework::kDeepSpeed:
    case Framework::kTombolo:
    case Framework::kAny:
      break;
  }
  return {};
}

}  // namespace tombolo::planner
