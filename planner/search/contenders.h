// The plans that a search has met and that are about as fast as the best one.
#pragma once

#include <cstddef>
#include <limits>
#include <map>
#include <string>
#include <vector>

#include "planner/plan/cluster_view.h"
#include "planner/plan/plan.h"

namespace tombolo::planner {

/// Keeps the fastest plan of each kind that searches offer, for a few kinds. Plans of a kind differ in
/// nothing but layers and which of alike devices they take: their degrees, schedule, ways to save memory and
/// the clusters that their pipelines pass are the same. Not thread-safe.
class Contenders {
 public:
  explicit Contenders(double tolerance) : tolerance_(tolerance) {}

  double tolerance() const noexcept { return tolerance_; }
  /// The seconds below which a plan is worth simulating where one that takes `best` is known.
  double limit(double best) const noexcept { return best * (1 + tolerance_); }
  /// Takes note of a plan with its predicted seconds and idle share. `view` is of the cluster that it is for.
  void offer(const Plan& plan, const ClusterView& view);
  /// The plans that are kept, the fastest first. All kinds within the tolerance of the fastest that were
  /// simulated are among them, and slower ones as it happens.
  std::vector<Plan> ranked() const;

 private:
  static constexpr std::size_t kMostKinds = 24;
  double tolerance_, most_seconds_ = std::numeric_limits<double>::infinity();
  std::map<std::string, Plan> by_kind_;
};

}  // namespace tombolo::planner
