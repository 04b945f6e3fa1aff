// Which worker takes which place of the grid, by what the links between workers attain: Pipette's "worker
// dedication" (arXiv 2405.18093).
#pragma once

#include <cstdint>
#include <vector>

namespace tombolo::planner {

/// Seconds over the link from one worker to another, row-major: entry from x workers + to.
struct DedicationCosts {
  int workers = 0;
  std::vector<double> activations;  ///< of all the micro-batches that pay for a hop one after the other
  std::vector<double> gradients;    ///< a stage's gradients over one edge of the ring of its replicas

  double hop(int from, int to) const { return activations[index(from, to)]; }
  double edge(int from, int to) const { return gradients[index(from, to)]; }

 private:
  std::size_t index(int from, int to) const {
    return static_cast<std::size_t>(from) * static_cast<std::size_t>(workers) + static_cast<std::size_t>(to);
  }
};

/// The worker at stage s of replica r is entry s x replicas + r.
using WorkerOrder = std::vector<int>;

/// What the order of workers decides of a step: the slowest pipeline's hops, there and back, and the slowest
/// edge of any stage's ring. (Pipette's own cost has the first stage's ring only.)
double dedication_seconds(const DedicationCosts& costs, int stages, int replicas, const WorkerOrder& order);

/// Simulated annealing from `order` (swap, reverse, move one), several runs, each then descending by swaps
/// until none helps. Never worse than `order`. Deterministic: the same arguments give the same order.
/// `rounds` of annealing cost about 0.1 us each for tens of workers, more with sqrt(workers).
WorkerOrder dedicate(const DedicationCosts& costs, int stages, int replicas, WorkerOrder order, int rounds,
                     std::uint64_t seed = 1);

}  // namespace tombolo::planner
