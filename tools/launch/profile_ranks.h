// Measures layer times on ranks of this machine or of a job, and merges them into one profile.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "base/clock.h"
#include "planner/model/profile.h"

namespace tombolo::tools {

struct ProfileRequest {
  planner::Model model;
  std::vector<int> micro_batches;                     ///< rows
  double seconds = 1;                                 ///< per micro-batch
  int threads = 1;                                    ///< per rank, for matrix products
  std::function<void(int done, int total)> progress;  ///< micro-batches; may be empty
};

/// The measured times of one device.
struct DeviceTimes {
  std::string host, device;
  std::vector<planner::Profile::Measurement> measurements;  ///< all of `device`
};

/// Runs `ranks` threads of this process that measure at once, each as a rank of its own; returns the medians
/// over them. Throws kInvalidUsage where there are more ranks than processors that this process may use, and
/// as trainer::time_layers does.
DeviceTimes profile_here(const ProfileRequest& request, int ranks, const std::string& device);

/// Collective over the ranks that a launcher started (collectives::Options::from_environment()). The ranks of
/// a host measure at once. But where the cluster file says that hosts share a processor, all ranks measure
/// one after the other, because the simulator itself divides the processor among them. `device` is a name for
/// all; empty = as the cluster file names them. The result has one entry per rank and is the same on every
/// rank.
std::vector<DeviceTimes> profile_job(const ProfileRequest& request, const std::string& device);

/// The median of every time, by device, kind and rows, in the order of first appearance.
std::vector<planner::Profile::Measurement> median_times(
    const std::vector<planner::Profile::Measurement>& all);

/// Merges all into one profile. Devices of one name get the median. Where two of them differ by more than a
/// quarter, the slower one counts, and `warnings` gets a sentence.
planner::Profile merge_times(const planner::Model& model, const std::vector<DeviceTimes>& all,
                             std::vector<std::string>& warnings);

}  // namespace tombolo::tools
