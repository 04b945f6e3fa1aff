// Searches for shapes that are fast by the estimate: replicas that each take a part of every host, and random
// changes of these and of others.
#pragma once

#include <cstdint>
#include <vector>

#include "planner/search/estimate.h"

namespace tombolo::planner {

/// A shape with its estimated seconds.
struct Ranked {
  double seconds = 0;
  Shape shape;
};

/// Makes shapes of replicas that are alike in columns: hosts are dealt into equal groups, and all replicas of
/// a group take equally many devices of each of its hosts, so that gradients stay inside hosts and only
/// activations leave them. It tries every number of groups and replicas, and for every type of host every
/// tensor degree and number of slots; with PlanOptions::may_leave_out also fewer than all. Returns the `most`
/// best by estimate, the best first.
std::vector<Ranked> column_shapes(const SearchContext& context, const Job& job,
                                  const std::vector<Pool>& pools, Estimator& estimator, std::size_t most);

/// Improves `start` by simulated annealing on the estimate. It changes layers, slots, tensor degrees, the
/// order of hosts, rows, micro-batches, recomputation and the number of replicas. `operations` bounds the
/// work: it is the number of pipeline operations that are timed. Equal seeds give equal results. The result
/// is never worse than `start`.
Ranked improved_shape(const SearchContext& context, const Job& job, const std::vector<Pool>& pools,
                      Estimator& estimator, const Ranked& start, std::int64_t operations, std::uint64_t seed);

}  // namespace tombolo::planner
