// Which worker takes which slot of the grid, by what the links between workers attain: Pipette's "worker
// dedication" (arXiv 2405.18093).
#pragma once

#include <cstdint>
#include <vector>

namespace tombolo::planner {

/// What sending takes from one worker to another, in seconds, as row-major matrices: entry from x workers +
/// to; or where `sites` are given, from one site to another: entry from x number of sites + to.
struct DedicationCosts {
  int workers = 0;
  std::vector<int> sites;           ///< site of each worker; empty: each worker is a site of its own
  int site_count = 0;               ///< where `sites` are given
  std::vector<double> activations;  ///< of all the micro-batches that pay for a hop one after the other
  std::vector<double> gradients;    ///< a stage's gradients over one edge of the ring of its replicas

  double hop(int from, int to) const { return activations[index(from, to)]; }
  double edge(int from, int to) const { return gradients[index(from, to)]; }

 private:
  std::size_t index(int from, int to) const {
    if (sites.empty())
      return static_cast<std::size_t>(from) * static_cast<std::size_t>(workers) +
             static_cast<std::size_t>(to);
    const auto site = [this](int worker) {
      return static_cast<std::size_t>(sites[static_cast<std::size_t>(worker)]);
    };
    return site(from) * static_cast<std::size_t>(site_count) + site(to);
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
