// Turns a plan into a shell script for a launcher. This folder owns these scripts, with one file for each
// launcher.
#pragma once

#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "planner/plan/plan.h"
#include "topology/files/cluster_file.h"

namespace tombolo::planner {

enum class Launcher {
  kMegatron,    ///< Megatron-LM under torchrun: run on every node with NODE_RANK
  kNeMo,        ///< a recipe of NeMo under torchrun: run on every node with NODE_RANK
  kTorchTitan,  ///< torchtitan under torchrun: run on every node with NODE_RANK
  kDeepSpeed,   ///< a PipelineModule program: run once; the deepspeed launcher reaches the nodes
  kTorchrun,    ///< the plan's framework, or any PyTorch program: run on every node with NODE_RANK
  kSlurm,       ///< the plan's framework, or any program: for sbatch
  kMpi,         ///< the plan's framework, or any program, under Open MPI's mpirun: run once
};
/// All launchers' names, in that order: "megatron", "nemo", "torchtitan", "deepspeed", "torchrun", "slurm",
/// "mpi".
std::span<const std::string_view> launcher_names() noexcept;
std::string_view launcher_name(Launcher launcher) noexcept;
/// The launcher of that name; nothing where there is none.
std::optional<Launcher> launcher_from_name(std::string_view name) noexcept;

/// Writes a script for sh that starts the plan: hosts in the plan's order, each rank's device, the
/// environment of the plugin, and the plan's choices as far as the launcher or its framework has options for
/// them. The rest of the command (a training program and its data) is given to the script as arguments.
/// Throws kUnsupported naming each choice that the framework cannot carry out (plan/inexpressible.h). Where
/// only the launcher lacks a word for something, the script says so in a comment and uses the nearest that it
/// has. `cluster_path` is where nodes find the cluster file unless TOMBOLO_CLUSTER says otherwise.
std::string emit(Launcher launcher, const Plan& plan, const topology::ClusterFile& cluster,
                 const std::string& cluster_path);

}  // namespace tombolo::planner
