// Measured against predicted: a short run of a plan corrects what the predictions go by.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "planner/plan/plan.h"
#include "planner/simulate/measured_run.h"
#include "planner/simulate/simulator.h"
#include "topology/files/cluster_file.h"

namespace tombolo::planner {

/// By how much longer a device took than predicted: measured / predicted seconds.
struct Correction {
  std::string host;    ///< empty: every device of that name (a profile tells devices apart by name only)
  int device = 0;      ///< of the host
  std::string name;    ///< of the device
  double forward = 1;  ///< where there is no profile, equal to `backward`: one FLOP/s stands for both
  double backward = 1;
  double update = 1;
};

struct Calibration {
  Simulation predicted;                                        ///< by what was given
  Simulation calibrated;                                       ///< by what follows from the measurement
  std::vector<RankSeconds> predicted_ranks, calibrated_ranks;  ///< what each rank computes, by rank
  std::vector<Correction> corrections;
  /// Where the plan's job has no profile: the cluster with corrected speeds of devices and memory. Devices
  /// that the plan does not use are corrected as those of their name are on average.
  topology::ClusterFile cluster;
  /// Where the job has a profile: the profile with corrected times.
  std::shared_ptr<const Profile> profile;
};

/// What each rank of a simulated step computes; `simulation` has spans.
std::vector<RankSeconds> rank_seconds(const Simulation& simulation, const Plan& plan);

/// Corrects, for each device (or each name of a device, with a profile), the times that its ranks compute,
/// until the simulated step spends on forward, backward and update what the measured one did. Where the
/// cluster file says that the ranks share a processor and the run says how long each had a core, by that: how
/// long a pass took besides is the sharing, which the simulator finds itself; and where the step is longer
/// than it then finds (kernel, hypervisor and changing turns take their part of the cores) or shorter (a
/// quota is used up at once, while the simulator spreads it evenly), the difference is spread over all
/// passes. Else by elapsed time, a fixed point, because ranks slow each other down. A profile also gets what
/// sending took of the processor, where all ranks compute on CPUs. Links are not corrected: the probe
/// measures them, and what a rank waits for tells no link from another. Throws kInvalidUsage where the run is
/// not one of this plan, and as simulate() does.
Calibration calibrate(const Plan& plan, const topology::ClusterFile& cluster, const MeasuredRun& run);

}  // namespace tombolo::planner
