// How many ranks a job has, and on how many hosts of how many clusters: what a tuning table is made for.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "collectives/schedule/rank_map.h"

namespace tombolo::collectives {

/// Names of hosts and clusters, and which ranks are where, do not count.
struct JobShape {
  /// By cluster, declared or found: how many ranks each of its hosts has. The largest come first in both.
  std::vector<std::vector<std::size_t>> clusters;
  /// All ranks use the same kind of NIC (TOMBOLO_ROUTING=shared).
  bool uniform_links = false;

  static JobShape of(const std::vector<RankLocation>& locations, bool uniform_links);

  std::size_t ranks() const noexcept;
  std::size_t hosts() const noexcept;
  /// "4 ranks on 2 hosts (2, 2) in 1 cluster", with the hosts' ranks.
  std::string describe() const;
  bool operator==(const JobShape&) const = default;
};

/// What differs first between the shape that a table is for and that of a job: "it is for 4 ranks, and this
/// job has 2". Empty where they are equal.
std::string difference(const JobShape& table, const JobShape& job);

}  // namespace tombolo::collectives
