#include "planner/launch/launch.h"

#include <fmt/ranges.h>

#include <array>

#include "base/error.h"
#include "planner/launch/emitters.h"
#include "planner/plan/inexpressible.h"

namespace tombolo::planner {
namespace {

struct Known {
  Launcher launcher;
  std::string_view name;
  std::optional<Framework> framework;  ///< whose program it starts; absent: the plan's
  std::string (*emit)(const Plan&, const topology::ClusterFile&, const std::string&);
};
constexpr std::array kKnown{
    Known{Launcher::kMegatron, "megatron", Framework::kMegatron, emit_megatron},
    Known{Launcher::kNeMo, "nemo", Framework::kNeMo, emit_nemo},
    Known{Launcher::kTorchTitan, "torchtitan", Framework::kTorchTitan, emit_torchtitan},
    Known{Launcher::kDeepSpeed, "deepspeed", Framework::kDeepSpeed, emit_deepspeed},
    Known{Launcher::kTorchrun, "torchrun", std::nullopt, emit_torchrun},
    Known{Launcher::kSlurm, "slurm", std::nullopt, emit_slurm},
    Known{Launcher::kMpi, "mpi", std::nullopt, emit_mpi}};

void check_expressible(const Plan& plan, Framework framework) {
  if (const std::string text = unsaid(plan.job.model, framework); !text.empty())
    fail(Cause::kUnsupported, "{}", text);
  const std::vector<std::string> lacks = inexpressible(plan, framework);
  if (lacks.empty()) return;
  fail(Cause::kUnsupported,
       "{} cannot carry this plan out: {}. Plan anew for it (--framework {}), which takes only what it can",
       traits(framework).title, fmt::join(lacks, "; "), framework_name(framework));
}

constexpr auto kNames = [] {
  std::array<std::string_view, kKnown.size()> names{};
  for (std::size_t i = 0; i < names.size(); ++i) names[i] = kKnown[i].name;
  return names;
}();

}  // namespace

std::span<const std::string_view> launcher_names() noexcept {
  return kNames;
}

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
    if (known.launcher == launcher) {
      check_expressible(plan, known.framework.value_or(plan.job.framework));
      return known.emit(plan, cluster, cluster_path);
    }
  return {};
}

}  // namespace tombolo::planner
