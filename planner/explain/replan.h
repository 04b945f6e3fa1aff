// The change from a running plan to the next: what has to move, how long that takes, and whether it pays.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "planner/planner.h"

namespace tombolo::planner {

/// What changing from one plan to another takes: parameters and optimizer state of the layers that a device
/// does not hold yet.
struct Moving {
  /// What one host gets from another, or from the checkpoint.
  struct Transfer {
    std::string from, to;  ///< hosts; `from` empty: no host holds it any more, it comes from the checkpoint
    std::uint64_t bytes = 0;
    double seconds = 0;  ///< alone on its way
  };
  std::vector<Transfer> transfers;  ///< one per pair of hosts; within a host bytes count, but take no time
  std::uint64_t bytes = 0, checkpoint_bytes = 0;
  /// Seconds of all moves at once: the longest that any host sends or receives, without what comes from the
  /// checkpoint.
  double seconds = 0;
};

/// Layers, the embedding and the output projection, each taken from the nearest host that holds it under
/// `from` and is still in `cluster`. Bytes per parameter: the value, Adam's two moments, and a master copy
/// where values are smaller than 4 bytes (memory.h); of a sharded optimizer its share.
Moving moving_between(const Plan& from, const Plan& to, const topology::ClusterFile& cluster);

struct Replan {
  Plan plan;                ///< what should run now
  Moving moving;            ///< from the running plan to it
  bool keep = false;        ///< it is the running plan
  double running_step = 0;  ///< predicted for the running plan on this cluster; 0 = it cannot run
  std::string why_not;      ///< why it cannot
  double steps_to_pay = 0;  ///< after so many steps the move has paid; 0 where it stays or has to move
};

/// Whether moving, which takes so many seconds, saves more over the next `steps` steps. Steps that are equal
/// to rounding save nothing, so that a plan that is found again goes on.
bool pays_to_move(double running_step, double fresh_step, double moving_seconds, double steps);

/// `running` on a cluster that may have changed: it goes on, or gives way to the plan that takes the least
/// for the next `steps` steps, moving included. Throws kInvalidUsage as make_plan() does where nothing fits.
Replan replan(const topology::ClusterFile& cluster, const Plan& running, const Job& job,
              const PlanOptions& options, double steps);

}  // namespace tombolo::planner
