#include "planner/launch/launch.h"

#include <array>

#include "planner/launch/emitters.h"

namespace tombolo::planner {
namespace {

struct Known {
  Launcher launcher;
  std::string_view name;
  std::string (*emit)(const Plan&, const topology::ClusterFile&, const std::string&);
};
constexpr std::array kKnown{Known{Launcher::kMegatron, "megatron", emit_megatron},
                            Known{Launcher::kTorchrun, "torchrun", emit_torchrun},
                            Known{Launcher::kDeepSpeed, "deepspeed", emit_deepspeed},
                            Known{Launcher::kSlurm, "slurm", emit_slurm},
                            Known{Launcher::kMpi, "mpi", emit_mpi}};

}  // namespace

std::string_view launcher_name(Launcher launcher) noexcept {
  for (const Known& known : kKnown)
    if (known.launcher == launcher) return known.name;
  return "";
}

std::optional<Launcher> launcher_from_name(std::string_view name) noexcept {
  for (const Known& known : kKnown)
    if (known.name == name) return known.launcher;
  return std::nullopt;
}

std::string emit(Launcher launcher, const Plan& plan, const topology::ClusterFile& cluster,
                 const std::string& cluster_path) {
  for (const Known& known : kKnown)
    if (known.launcher == launcher) return known.emit(plan, cluster, cluster_path);
  return {};
}

}  // namespace tombolo::planner
