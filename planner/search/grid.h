// Enumerates every grid of stages, replicas and tensor degrees that a job and a cluster allow, filled by a
// strategy's rule.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "planner/plan/placement.h"
#include "planner/search/search.h"

namespace tombolo::planner {

/// How a strategy fills a grid.
struct GridRule {
  /// Places the ranks. `view` is of per-peer routing.
  Placement (*place)(const ClusterView& view, const std::vector<LauncherSlot>& slots, const Grid& grid);
  /// Divides `layers` layers among `stages` stages; returns the layers of each.
  std::vector<int> (*split)(int layers, int stages, const Placement& placement, const PlanOptions& options);
  bool equal_stages = false;  ///< whether grids are excluded whose stages do not divide the layers
  /// whether layers move from stages that lack memory to the nearest stage with room
  bool moves_layers = false;
  /// Whether, if some layout that fits keeps every gradient group inside one NIC kind, only such layouts are
  /// taken.
  bool keeps_groups_inside_kinds = false;
};

/// A layout whose numbers are divisible, with its layers assigned; it is not yet simulated.
struct Candidate {
  Plan plan;
  bool groups_inside_kinds = true;
  double bound = 0;  ///< seconds; no simulation of it takes less
  /// Bytes that the rank that lacks most memory lacks; 0 where everything fits.
  std::uint64_t missing_bytes = 0;
  int missing_rank = -1;
};

struct Candidates {
  std::vector<Candidate> all;
  std::vector<std::string> excluded;  ///< why other numbers of stages were not tried, for messages
};

/// The candidates of every (pipeline, data, tensor, schedule, micro-batch, sharding) that the job leaves
/// open, that divides and that the job's framework can express, each with the least recomputation with which
/// it fits. Throws kInvalidUsage when what the job fixes contradicts the number of ranks.
Candidates enumerate(const SearchContext& context, const Job& job, const GridRule& rule);

}  // namespace tombolo::planner
