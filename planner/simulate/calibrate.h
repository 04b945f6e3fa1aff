// Compares a measured run with its prediction: a short run of a plan corrects the speeds from which
// predictions are made.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "planner/plan/plan.h"
#include "planner/simulate/measured_run.h"
#include "planner/simulate/simulator.h"
#include "topology/files/cluster_file.h"

namespace tombolo::planner {

/// The factor by which a device took longer than predicted: measured / predicted seconds.
struct Correction {
  std::string host;    ///< empty: every device of that name (a profile tells devices apart by name only)
  int device = 0;      ///< of the host
  std::string name;    ///< of the device
  double forward = 1;  ///< where there is no profile, equal to `backward`: one FLOP/s stands for both
  double backward = 1;
  double update = 1;
};

/// The most by which passes are lengthened, or shortened, so that the step takes as long as the measured one.
inline constexpr double kMostSpread = 4;
/// Whether a factor was kept from going further by that; if so, the step is not explained.
constexpr bool at_most_spread(double factor) noexcept {
  constexpr double kNear = 0.999;
  return factor > kMostSpread * kNear || factor * kMostSpread * kNear < 1;
}

struct Calibration {
  Simulation predicted;                                        ///< from the speeds that were given
  Simulation calibrated;                                       ///< from the corrected speeds
  std::vector<RankSeconds> predicted_ranks, calibrated_ranks;  ///< what each rank computes, by rank
  std::vector<Correction> corrections;
  /// Where the plan's job has no profile: the cluster with corrected speeds of devices and memory. Devices
  /// that the plan does not use get the mean correction of the devices of their name.
  topology::ClusterFile cluster;
  /// Where the job has a profile: the profile with corrected times.
  std::shared_ptr<const Profile> profile;
};

/// The seconds that each rank of a simulated step computes; `simulation` must have spans.
std::vector<RankSeconds> rank_seconds(const Simulation& simulation, const Plan& plan);

/// Corrects, for each device (with a profile: for each name of a device), the times that its ranks compute,
/// until the simulated step spends as much on forward, backward and update as the measured one did.
///
/// Where the cluster file says that the ranks share a processor and the run says how long each had a core,
/// the time on a core counts: what a pass took beyond that is due to the sharing, which the simulator
/// computes itself. If the measured step is longer than the simulated one then (kernel, hypervisor and
/// context switches take their part of the cores) or shorter (a quota is used up at once, while the simulator
/// spreads it evenly), the difference is spread over all passes. Otherwise elapsed time counts, which needs a
/// fixed-point iteration because ranks slow each other down.
///
/// Of a run of which only the steps are known, passes on all devices are lengthened or shortened alike, by a
/// factor of at most 4, until the simulated step takes as long as the measured one.
///
/// A profile also gets the processor time that sending took, where all ranks compute on CPUs. Links are not
/// corrected: the probe measures them, and the time that a rank waits does not tell one link from another.
/// Throws kInvalidUsage where the run is not one of this plan, and as simulate() does.
Calibration calibrate(const Plan& plan, const topology::ClusterFile& cluster, const MeasuredRun& run);

}  // namespace tombolo::planner
