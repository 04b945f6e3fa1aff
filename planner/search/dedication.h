// Decides which worker takes which slot of the grid, by the rates of the links between workers: Pipette's
// "worker dedication" (arXiv 2405.18093).
#pragma once

#include <cstdint>
#include <vector>

namespace tombolo::planner {

/// Seconds that sending from one worker to another takes, as row-major matrices: the entry is from x workers
/// + to; or where `sites` are given, between sites: from x number of sites + to.
struct DedicationCosts {
  int workers = 0;
  std::vector<int> sites;           ///< site of each worker; empty: each worker is a site of its own
  int site_count = 0;               ///< where `sites` are given
  std::vector<double> activations;  ///< of all micro-batches that pay for a hop one after the other
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

/// Workers by slot: the worker at stage s of replica r is entry s x replicas + r.
using WorkerOrder = std::vector<int>;

/// The part of a step's time that depends on the order of workers: the hops of the slowest pipeline, in both
/// directions, and the slowest edge of any stage's ring. (Pipette's own cost has only the first stage's
/// ring.)
double dedication_seconds(const DedicationCosts& costs, int stages, int replicas, const WorkerOrder& order);

/// Improves `order` by simulated annealing (moves: swap, reverse, move one) in several runs, each followed by
/// swaps until none helps. The result is never worse than `order`, and deterministic: the same arguments give
/// the same order. A round of annealing costs about 0.1 us for tens of workers, and more with sqrt(workers).
WorkerOrder dedicate(const DedicationCosts& costs, int stages, int replicas, WorkerOrder order, int rounds,
                     std::uint64_t seed = 1);

}  // namespace tombolo::planner
