// What the collective engine does when ranks reduce something together, and how long that takes: its own
// choice by its own cost model (collectives/schedule/), from the rates and latencies of the cluster file.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "collectives/schedule/choice.h"
#include "planner/cost/engine_traffic.h"
#include "planner/plan/cluster_view.h"

namespace tombolo::planner {

/// A call of the engine.
struct EngineCall {
  collectives::Problem problem;
  collectives::Choice choice;
  /// From its begin until all have the result, by the engine's model, with the links to themselves. What goes
  /// through a host's memory is not in that model, and takes what each rank combines and copies.
  double seconds = 0;
};

/// The engine among some ranks, of which each is a member. A latency that the cluster file does not say
/// counts as none, as everywhere in the planner; inside a host, and of a rank's processor and memory, the
/// figures are the model's defaults (NetworkCosts).
class EngineModel {
 public:
  /// `hosts`: by member, at least one. `view` must outlive it.
  EngineModel(const ClusterView& view, const std::vector<int>& hosts);

  /// The all-reduce of a vector of such elements.
  EngineCall all_reduce(double bytes, std::size_t element_bytes = sizeof(float)) const;
  /// What it sends, as the schedules of all members say, and what it takes alone.
  AllReduce traffic(const EngineCall& call, EngineTraffic& known) const;
  /// Why the engine takes this way, as a sentence without its end.
  std::string why(const EngineCall& call) const;

 private:
  collectives::Situation situation() const;

  collectives::RankMap map_;  ///< as the first member sees it
  collectives::Tuning tuning_;
  collectives::JobCosts costs_;
  bool one_host_ = false;
  bool chooses_by_costs_ = false;  ///< the engine knows what it needs for that
};

}  // namespace tombolo::planner
