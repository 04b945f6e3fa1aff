#include "planner/launch/framework_environment.h"

#include <fmt/format.h>

#include "topology/files/library.h"

namespace tombolo::planner {

namespace {

/// A device of the plan that the library does not know to be a GPU of Blackwell's generation or a later one;
/// empty where there is none.
std::string device_before_blackwell(const Plan& plan, const topology::ClusterFile& cluster) {
  constexpr double kBlackwell = 10;
  const topology::Library library = topology::Library::load();
  for (const RankPlacement& place : plan.ranks) {
    const topology::Host* host = cluster.find_host(place.host);
    if (!host || static_cast<std::size_t>(place.device) >= host->devices.size()) continue;
    const topology::Device& device = host->devices[static_cast<std::size_t>(place.device)];
    const auto known = library.device_names.find(device.name);
    if (!known || library.devices[*known].compute_capability < kBlackwell) return device.name;
  }
  return {};
}

/// Megatron Core relies on one hardware queue for the order in which kernels start, and Megatron-LM's
/// programs refuse to start without. Its FSDP, which no plan takes, refuses to start with it.
std::string of_megatron_core(const Plan& plan, const topology::ClusterFile& cluster,
                             std::string_view framework) {
  const Job& job = plan.job;
  if ((job.tensor <= 1 && job.context_parallel <= 1) || job.sharding > Sharding::kOptimizer) return {};
  const std::string device = device_before_blackwell(plan, cluster);
  if (device.empty()) return {};
  return fmt::format(
      "# {} wants one hardware queue where ranks share layers or rows ({} tensor, {} context) on GPUs "
      "before\n"
      "# Blackwell ({}), so that an exchange starts before the products that hide it. Its FSDP, which this\n"
      "# plan does not take, would want more.\n"
      "export CUDA_DEVICE_MAX_CONNECTIONS=\"${{CUDA_DEVICE_MAX_CONNECTIONS:-1}}\"\n",
      framework, job.tensor, job.context_parallel, device);
}

}  // namespace

std::string framework_environment(const Plan& plan, const topology::ClusterFile& cluster,
                                  Framework framework) {
  switch (framework) {
    case Framework::kMegatron:
    case Framework::kNeMo:
      return of_megatron_core(plan, cluster, traits(framework).title);
    case Framework::kTorchTitan:  // its tensor parallelism and FSDP order kernels by events
    case Framework::kDeepSpeed:
    case Framework::kTombolo:
    case Framework::kAny:
      break;
  }
  return {};
}

}  // namespace tombolo::planner
