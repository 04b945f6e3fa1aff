// What is known of the links among a job's hosts, and what follows for the cost model. The engine asks this,
// and so does the planner, so that both choose by the same figures.
#pragma once

#include <cstddef>
#include <optional>
#include <vector>

#include "collectives/schedule/network_costs.h"
#include "collectives/schedule/rank_map.h"
#include "topology/files/cluster_file.h"
#include "topology/files/link_table.h"

namespace tombolo::collectives {

struct LevelFacts {
  Level level = Level::kHost;
  double bytes_per_second = 0;  ///< of a pair, one direction, the median; 0: unknown
  double latency_seconds = 0;   ///< 0: unknown
};

/// What a cluster file says of some hosts.
struct LinkFacts {
  LevelFacts inside{Level::kCluster}, between{Level::kBetween};
  /// At which all hosts of a cluster together send to, or get from, those of others, one direction: of the
  /// cluster for which that is least. 0: unknown.
  double uplink_bytes_per_second = 0;
};

/// Of more hosts only the first so many count: the figures of pairs would take long, and are alike.
inline constexpr std::size_t kMostHostsOfLinkFacts = 128;

/// Pure. `hosts` are the job's, each once, in the order of their lowest ranks. Between two of them counts the
/// fastest pair of NICs of which the file, whose links `links` has, knows the rate; a host that the file does
/// not name has none. A shared link limits an uplink where everything that leaves or reaches the cluster
/// crosses it.
LinkFacts link_facts(const topology::ClusterFile& file, const topology::LinkTable& links,
                     const std::vector<RankLocation>& hosts);

/// What messages cost at these levels, each at most once: inside hosts as they typically do. Nothing where a
/// rate or a latency between hosts is unknown. `uplink_bytes_per_second`: 0 where nobody knows.
std::optional<NetworkCosts> network_costs(const std::vector<LevelFacts>& levels,
                                          double uplink_bytes_per_second) noexcept;

}  // namespace tombolo::collectives
