#include <algorithm>

#include "base/error.h"
#include "compute/gemm.h"
#include "probe/measure/core_speed.h"
#include "probe/probe.h"

namespace tombolo::probe {
namespace {

/// The ranks on this rank's host: how many have a lower number, and how many there are in all.
struct Neighbours {
  int before = 0, all = 0;
};
Neighbours neighbours_of(const collectives::Communicator& communicator) {
  const auto& members = communicator.members();
  const std::string& host = members[static_cast<std::size_t>(communicator.rank())].host;
  Neighbours found;
  for (const auto& member : members) {
    if (member.host != host) continue;
    ++found.all;
    if (member.rank < communicator.rank()) ++found.before;
  }
  return found;
}

DeviceSpeed core_speed(const ComputeProbeOptions& options, std::size_t memory) {
  DeviceSpeed speed;
  speed.flops_per_second = time_products(options.rows, options.inner, options.columns, options.seconds);
  speed.float32_flops_per_second = speed.flops_per_second;
  speed.memory_bytes_per_second = time_triad(memory, options.seconds);
  return speed;
}

DeviceSpeed gpu_speed(const CudaFunctions& cuda, const ComputeProbeOptions& options) {
  const GpuSpeed measured = time_gpu(cuda, *options.gpu, options.seconds);
  return {measured.bfloat16_flops_per_second, measured.memory_bytes_per_second,
          measured.float32_flops_per_second};
}

}  // namespace

std::optional<GpuChoice> gpu_of(const collectives::Communicator& communicator, const topology::Host& mine) {
  const int local = neighbours_of(communicator).before;
  if (local >= static_cast<int>(mine.devices.size())) return std::nullopt;
  const topology::Device& device = mine.devices[static_cast<std::size_t>(local)];
  if (device.kind != topology::DeviceKind::kGpu) return std::nullopt;
  return GpuChoice{device.pci_path.substr(device.pci_path.rfind('/') + 1), local};
}

ComputeResult probe_compute(collectives::Communicator& communicator, const ComputeProbeOptions& options) {
  if (options.rows < 1 || options.inner < 1 || options.columns < 1 || !(options.seconds > 0)) {
    fail(Cause::kInvalidUsage, "probe of compute: {} x {} x {} for {} s; all must be positive", options.rows,
         options.inner, options.columns, options.seconds);
  }
  ComputeResult result;
  result.gpu = options.gpu.has_value();
  std::optional<CudaLibrary> cuda;
  if (result.gpu) cuda = CudaLibrary::load(result.problem);
  const std::size_t memory =
      options.memory > 0 ? options.memory : triad_bytes(neighbours_of(communicator).all);
  // A failing GPU must not keep the other ranks from measuring, so its error is caught.
  const auto measure = [&]() -> DeviceSpeed {
    if (!result.gpu) return core_speed(options, memory);
    if (!result.problem.empty()) return {};
    try {
      return gpu_speed(cuda->functions, options);
    } catch (const Error& error) {
      result.problem = error.what();
      return {};
    }
  };
  const compute::MultiplyThreads alone(1);  // a rank is one core, as in the trainer
  for (int turn = 0; turn < communicator.size(); ++turn) {
    communicator.barrier();
    if (turn == communicator.rank()) result.alone = measure();
  }
  communicator.barrier();
  result.together = measure();
  communicator.barrier();
  return result;
}

}  // namespace tombolo::probe
