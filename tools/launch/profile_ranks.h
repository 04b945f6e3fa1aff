// Measures layer times on ranks of this machine or of a job, and merges them into one profile.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/clock.h"
#include "planner/model/profile.h"
#include "probe/bootstrap/rendezvous_group.h"
#include "trainer/run/back_end.h"

namespace tombolo::tools {

struct ProfileRequest {
  planner::Model model;
  std::vector<int> micro_batches;                              ///< rows
  double seconds = 1;                                          ///< per micro-batch
  int threads = 1;                                             ///< per rank, for matrix products
  trainer::DeviceChoice device = trainer::DeviceChoice::kCpu;  ///< what computes, on each rank
  std::optional<int> gpu;  ///< its number among those that CUDA shows; absent: the rank's number on its host
  compute::Precision precision = compute::Precision::kFloat32, moments = compute::Precision::kFloat32;
  planner::Recompute recompute = planner::Recompute::kNone;
  /// Opens a GPU; tests give another.
  std::function<std::unique_ptr<trainer::cuda::Device>(int)> open_gpu = trainer::cuda::open_cuda_device;
  std::function<void(int done, int total)> progress;  ///< micro-batches; may be empty
};

/// The measured times of one device.
struct DeviceTimes {
  std::string host, device;
  std::vector<planner::Profile::Measurement> measurements;   ///< all of `device`
  trainer::DeviceChoice kind = trainer::DeviceChoice::kCpu;  ///< kCpu or kCuda
  std::string description = {};                              ///< of a GPU
  double peak = 0;  ///< FLOP/s of a GPU, by its data sheet; 0: unknown
};

/// Runs `ranks` threads of this process that measure at once, each as a rank of its own; returns the medians
/// over them, under the name of `device` or, where that is absent, as the device calls itself. Throws
/// kInvalidUsage where there are more ranks than processors that this process may use, and as
/// trainer::choose_back_end and trainer::time_layers do.
DeviceTimes profile_here(const ProfileRequest& request, int ranks, const std::optional<std::string>& device);

/// Collective over the ranks that a launcher started (collectives::Options::from_environment()). The ranks of
/// a host measure at once. But where the cluster file says that hosts share a processor, all ranks measure
/// one after the other, because the simulator itself divides the processor among them. `device` is a name for
/// all; absent = as the cluster file names them. The result has one entry per rank and is the same on every
/// rank.
std::vector<DeviceTimes> profile_job(const ProfileRequest& request, const std::optional<std::string>& device);
/// The same where the job has a group already; `engine` is that of the group.
std::vector<DeviceTimes> profile_job(const ProfileRequest& request, const std::optional<std::string>& device,
                                     const collectives::Options& engine, probe::RendezvousGroup& group);

/// The median of every time, by device, kind and rows, in the order of first appearance.
std::vector<planner::Profile::Measurement> median_times(
    const std::vector<planner::Profile::Measurement>& all);

/// Merges all into one profile of what `request` asked for. Its model's values have the bytes that devices
/// keep and send: 2 where GPUs compute in bf16. Throws kInvalidUsage where some did that on GPUs and some on
/// CPUs. Devices of one name get the median. Where two of them differ by more than a
/// quarter, the slower one counts, and `warnings` gets a sentence.
planner::Profile merge_times(const ProfileRequest& request, const std::vector<DeviceTimes>& all,
                             std::vector<std::string>& warnings);

}  // namespace tombolo::tools
