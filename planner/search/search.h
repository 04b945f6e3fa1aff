// The layouts that a job and a cluster allow, and which of them fit in memory.
#pragma once

#include <cstdint>
#include <limits>
#include <optional>
#include <string>
#include <vector>

#include "planner/plan/cluster_view.h"
#include "planner/plan/placement.h"
#include "planner/planner.h"
#include "planner/simulate/simulator.h"

namespace tombolo::planner {

/// A layout that divides, with its layers assigned; not yet simulated.
struct Candidate {
  Plan plan;
  bool groups_inside_kinds = true;
  double bound = 0;  ///< seconds below which no simulation of it can come
  /// Of the rank that lacks most: 0 where everything fits.
  std::uint64_t missing_bytes = 0;
  int missing_rank = -1;
};

struct Candidates {
  std::vector<Candidate> all;
  std::vector<std::string> excluded;  ///< why other numbers of stages were not tried, for messages
};

/// What stays the same while a job is searched.
struct SearchContext {
  const ClusterView& view;        ///< of the routing that the plan assumes
  const ClusterView& kinds_view;  ///< of per-peer routing
  const std::vector<Slot>& slots;
  const PlanOptions& options;
  /// Plans whose step takes as long or longer are not wanted.
  double limit_seconds = std::numeric_limits<double>::infinity();
};

/// Every (pipeline, data, tensor, schedule, micro-batch) that the job leaves open and that divides. Throws
/// kInvalidUsage when what the job fixes contradicts the number of ranks.
Candidates enumerate(const SearchContext& context, const Job& job);

/// Two truths about any schedule, in seconds: a place's ranks compute all their micro-batches, after the
/// first has passed the stages before and before the last has gone back through them; and shared cores do all
/// their work.
double lower_bound(const Plan& plan, const ClusterView& view);

/// As simulate(), without spans; nothing where a step takes `limit` seconds or more, or where ranks must talk
/// whose hosts the cluster file does not link, of which `why`, if given and empty, gets the error.
std::optional<Simulation> simulate_if_linked(const Plan& plan, const ClusterView& view,
                                             double limit = std::numeric_limits<double>::infinity(),
                                             std::string* why = nullptr);

struct Missing {
  std::uint64_t bytes = 0;  ///< 0 where everything fits
  int rank = -1;
};
/// Of the rank that lacks most.
Missing missing_memory(const Plan& plan, const ClusterView& view);

/// Bytes that the device of a rank lacks for `needed`; 0 where it fits or its size is unknown.
std::uint64_t missing_on(const ClusterView& view, const RankPlace& place, std::uint64_t needed);

}  // namespace tombolo::planner
