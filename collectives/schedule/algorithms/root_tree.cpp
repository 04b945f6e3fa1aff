#include "collectives/schedule/algorithms/root_tree.h"

#include <cstddef>

#include "collectives/schedule/algorithms/root_chain.h"
#include "collectives/schedule/algorithms/two_level/cluster_shares.h"

namespace tombolo::collectives {
namespace {

/// Adds this rank's place in the binomial tree over `chain`, whose first rank is its root. The parent of
/// position p is p without its highest bit.
void add_place(const std::vector<int>& chain, int rank, TreePlace& place) {
  const std::size_t p = position_in(chain, rank);
  std::size_t bit = 1;
  while (bit <= p) bit *= 2;
  if (p > 0) place.parent = chain[p - bit / 2];
  for (; p + bit < chain.size(); bit *= 2) place.children.push_back(chain[p + bit]);
}

}  // namespace

TreePlace place_in_tree(const RankMap& ranks, int root) {
  const std::vector<int> chain = chain_from(ranks, root);
  TreePlace place;
  if (!clusters_are_far(ranks, {}, {})) {
    add_place(chain, ranks.rank, place);
    return place;
  }
  std::vector<std::vector<int>> by_cluster;  // the root's first; of each, first the one that enters it
  std::size_t at = 0;
  while (at < chain.size()) {
    std::size_t size = 0;
    for (const auto& cluster : ranks.clusters)
      if (position_in(cluster, chain[at]) < cluster.size()) size = cluster.size();
    const auto begin = chain.begin() + static_cast<std::ptrdiff_t>(at);
    by_cluster.emplace_back(begin, begin + static_cast<std::ptrdiff_t>(size));
    at += size;
  }
  std::vector<int> entries;
  for (const auto& cluster : by_cluster) entries.push_back(cluster.front());
  for (const auto& cluster : by_cluster) {
    if (position_in(cluster, ranks.rank) == cluster.size()) continue;
    if (cluster.front() == ranks.rank) add_place(entries, ranks.rank, place);
    add_place(cluster, ranks.rank, place);
  }
  return place;
}

Nanoseconds cost_of_tree(const JobCosts& job, std::uint64_t bytes, Nanoseconds work) noexcept {
  return tree_rounds(job.clusters()) * (job.hop(Level::kBetween, bytes) + work) +
         job.rounds(tree_rounds(job.largest()), bytes, work);
}

}  // namespace tombolo::collectives
