#include "collectives/schedule/algorithms/root_chain.h"

#include <algorithm>

namespace tombolo::collectives {

std::vector<int> chain_from(const RankMap& ranks, int root) {
  std::vector<int> chain{root};
  const auto append = [&](const std::vector<int>& cluster) {
    for (const int rank : cluster) {
      if (rank != root) chain.push_back(rank);
    }
  };
  const auto holds_root = [&](const std::vector<int>& cluster) {
    return std::find(cluster.begin(), cluster.end(), root) != cluster.end();
  };
  for (const auto& cluster : ranks.clusters) {
    if (holds_root(cluster)) append(cluster);
  }
  for (const auto& cluster : ranks.clusters) {
    if (!holds_root(cluster)) append(cluster);
  }
  return chain;
}

std::size_t position_in(const std::vector<int>& chain, int rank) {
  return static_cast<std::size_t>(std::find(chain.begin(), chain.end(), rank) - chain.begin());
}

Nanoseconds cost_of_chain(const JobCosts& job, const Problem& problem, const Tuning& tuning,
                          bool sums) noexcept {
  const std::uint64_t pieces =
      std::max<std::uint64_t>(1, (problem.bytes() + tuning.segment_bytes - 1) / tuning.segment_bytes);
  const std::uint64_t piece = problem.bytes() / pieces;
  const Nanoseconds work = sums ? job.memory(piece) : 0;
  const Nanoseconds last_edge = job.hop(job.farthest(), piece) + work;  // back to the root: not taken
  return job.around(piece, work) - last_edge +
         (pieces - 1) * std::max(job.slowest_wire(piece), job.messages(2) + work);
}

}  // namespace tombolo::collectives
