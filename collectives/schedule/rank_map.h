// Which ranks are near each other: what algorithms need to know of hosts and clusters.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

namespace tombolo::collectives {

struct RankLocation {
  std::string host, cluster;
};

/// Immutable. The same on every rank except for `rank`, `position`, `cluster` and `index`.
struct RankMap {
  int rank = 0;
  int size = 1;
  /// Ranks by cluster, then host, then rank (clusters and hosts in the order of their lowest ranks):
  /// neighbours here are near each other, whatever order the launcher chose.
  std::vector<int> order;
  int position = 0;                        ///< of this rank in `order`
  std::vector<std::vector<int>> clusters;  ///< ranks, in the order of `order`
  /// By cluster: how many ranks each of its hosts has. So many ranks of the cluster, from the first on, are
  /// together on the first host, and so on.
  std::vector<std::vector<std::size_t>> hosts;
  /// By cluster: how much of what all clusters combine it combines for the others, out of the sum of these;
  /// empty: each as much as any other. By how fast they can exchange (cluster_weights.h).
  std::vector<std::uint32_t> cluster_weights;
  int cluster = 0;  ///< this rank's, in `clusters`
  int index = 0;    ///< of this rank in its cluster
  /// Links between clusters are as fast as those inside: with shared routing every rank uses the same kind of
  /// NIC.
  bool uniform_links = false;

  /// `locations` by rank.
  static RankMap make(int rank, const std::vector<RankLocation>& locations);

  /// The rank at a position, counted around the ring.
  int at(int where) const noexcept { return order[static_cast<std::size_t>(((where % size) + size) % size)]; }
};

}  // namespace tombolo::collectives
