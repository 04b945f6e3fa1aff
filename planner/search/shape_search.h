// Shapes that an estimate says are fast: replicas that each take a part of every host, and what random
// changes make of these and of others.
#pragma once

#include <cstdint>
#include <vector>

#include "planner/search/estimate.h"

namespace tombolo::planner {

/// A shape with its estimate.
struct Ranked {
  double seconds = 0;
  Shape shape;
};

/// Replicas that are alike in columns: hosts are dealt into equal groups, and all replicas of a group take as
/// many devices of each of its hosts, so that gradients stay inside of hosts and only activations leave them.
/// Every number of groups and replicas, and for every type of host every tensor degree and number of slots;
/// with PlanOptions::may_leave_out also fewer than all. The best `most` by estimate, the best first.
std::vector<Ranked> column_shapes(const SearchContext& context, const Job& job,
                                  const std::vector<Pool>& pools, Estimator& estimator, std::size_t most);

/// Simulated annealing from `start` on, by the estimate: layers, slots, tensor degrees, the order of hosts,
/// rows, micro-batches, recomputation and the number of replicas. `operations` bounds the work: as many
/// operations of a pipeline are timed. Equal seeds give equal results. Never worse than `start`.
Ranked improved_shape(const SearchContext& context, const Job& job, const std::vector<Pool>& pools,
                      Estimator& estimator, const Ranked& start, std::int64_t operations, std::uint64_t seed);

}  // namespace tombolo::planner
