// Cluster + model -> plan. Pure functions: no sockets, no clocks.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "planner/model/model.h"
#include "planner/plan/plan.h"
#include "planner/simulate/simulator.h"
#include "topology/files/cluster_file.h"

namespace tombolo::planner {

enum class Strategy {
  kMegatron,   ///< ranks in launcher order, equal layers
  kHolmes,     ///< clusters sorted by NIC kind fill whole stages, layers by attained speed
  kPipette,    ///< equal stages, workers placed by what the links between them attain
  kFlashFlex,  ///< replicas of their own shapes: stages, tensor degrees, layers, rows
  kAuto,       ///< the best of all the others, and from there by moves; of few ranks exhaustive
};
/// "megatron", "holmes", "pipette", "flashflex", "auto".
std::string_view strategy_name(Strategy strategy) noexcept;
std::optional<Strategy> strategy_from_name(std::string_view name) noexcept;

struct PlanOptions {
  Strategy strategy = Strategy::kHolmes;
  /// "per-peer" or "shared": the transport that the prediction assumes.
  std::string routing = "per-peer";
  /// Host of each launcher rank, in launcher order; empty = the cluster file's order, one rank per device.
  std::vector<std::string> rank_hosts;
  /// Holmes' alpha: favours faster clusters by a little more than their share.
  double alpha = 1.0;
  /// What may be done to save memory: of each layout the first that fits is taken. Empty = as the job says.
  std::vector<Saving> savings;
  /// Which schedules are tried, each with its model chunks. Empty = the job's.
  std::vector<std::pair<Schedule, int>> schedules;
  /// Whether replicas may differ, where the strategy has it; the bundled trainer's must be alike anyway.
  bool uneven_replicas = true;
  /// Whether ranks may stay idle where a step is shorter without them; flashflex and auto.
  bool may_leave_out = false;
};

/// What may be done for so many replicas, of which a single one has nobody to share the optimizer with. Never
/// empty.
std::vector<Saving> savings_of(const PlanOptions& options, const Job& job, std::size_t replicas = 2);

/// Tries every allowed (pipeline, data, tensor, schedule, micro-batch), drops those whose memory does not
/// fit, returns the fastest in simulation. Throws kInvalidUsage when nothing fits, saying what would.
Plan make_plan(const topology::ClusterFile& cluster, const Job& job, const PlanOptions& options);

}  // namespace tombolo::planner
