// What of a job follows from the devices that its plan uses, where nothing fixes it: the precision, and
// whether exchanges go beside products.
#pragma once

#include <string>
#include <vector>

#include "planner/plan/placement.h"
#include "planner/planner.h"

namespace tombolo::planner {

/// Whether ranks in these slots that share layers can exchange beside matrix products without further ado, as
/// Megatron-LM's --tp-comm-overlap does by Transformer Engine: GPUs that reach each other by NVLink, and have
/// multicast, as Hopper and later have. Both are told by the hosts' rates and by the library of devices.
bool suits_tensor_overlap(const ClusterView& view, const std::vector<LauncherSlot>& slots);

/// The job as it is planned on the devices of these slots: with fp16 in place of bf16 where
/// PlanOptions::precision_by_devices and a GPU of them has no bf16, with exchanges beside products where
/// PlanOptions::overlap_by_devices and suits_tensor_overlap(). Throws kUnsupported where the framework has no
/// fp16, and kInvalidUsage where the library has no constants of Job::software for a GPU of them, naming it.
Job decided_for(const ClusterView& view, const std::vector<LauncherSlot>& slots, const Job& job,
                const PlanOptions& options);

/// Some of a job's slots, on which a plan of its own is searched.
struct SlotChoice {
  std::vector<LauncherSlot> slots;
  std::string lack;  ///< "have no bf16": what the others lack; empty where there are none
};
/// The slots among which plans are searched, from the fewest to the most: all of them, and where
/// PlanOptions::may_leave_out also those alone that suit what decided_for() would else not decide for. Slots
/// whose GPUs Job::software was not measured on are then in none.
std::vector<SlotChoice> slot_choices(const ClusterView& view, const std::vector<LauncherSlot>& slots,
                                     const Job& job, const PlanOptions& options);

/// Whether two jobs differ in what follows from devices.
bool has_other_choices(const Job& one, const Job& other) noexcept;

/// What a step takes of a plan whose job was decided for some devices.
struct ChoiceTime {
  Job job;
  std::size_t devices = 0;  ///< that the plan uses
  double step_seconds = 0;
};
/// Notes in `plan`, whose job was decided to be `job`, which of `all` its slots leave out, and what the best
/// step of `times` is of those that were decided otherwise.
void note_devices(const ClusterView& view, const std::vector<LauncherSlot>& all, const SlotChoice& taken,
                  const Job& job, const std::vector<ChoiceTime>& times, Plan& plan);

}  // namespace tombolo::planner
