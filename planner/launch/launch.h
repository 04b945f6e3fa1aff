// A plan as a launcher's shell script; this folder has one file for each launcher.
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "planner/plan/plan.h"
#include "topology/files/cluster_file.h"

namespace tombolo::planner {

enum class Launcher {
  kMegatron,   ///< Megatron-LM under torchrun: run on every node with NODE_RANK
  kTorchrun,   ///< any PyTorch program: run on every node with NODE_RANK
  kDeepSpeed,  ///< a PipelineModule program: run once; the deepspeed launcher reaches the nodes
  kSlurm,      ///< any program: for sbatch
  kMpi,        ///< any program under Open MPI's mpirun: run once
};
std::string_view launcher_name(Launcher launcher) noexcept;
std::optional<Launcher> launcher_from_name(std::string_view name) noexcept;

/// A script for sh that starts the plan: hosts in the plan's order, each rank's device, the environment of
/// the plugin, and where the launcher or its framework has words for them the plan's choices. What the rest
/// of the command is (a training program and its data) the script takes as its arguments. Where something of
/// the plan cannot be expressed, the script says so in a comment and holds the nearest that can; where
/// nothing is near, throws kUnsupported with the remedy. `cluster_path` is where nodes find the cluster file
/// unless TOMBOLO_CLUSTER says otherwise.
std::string emit(Launcher launcher, const Plan& plan, const topology::ClusterFile& cluster,
                 const std::string& cluster_path);

}  // namespace tombolo::planner
