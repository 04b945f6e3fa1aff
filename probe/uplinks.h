// Links that a cluster shares among all that it sends to others, or takes from them. Pure.
#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <vector>

#include "probe/meetings.h"
#include "topology/files/cluster_file.h"

namespace tombolo::probe {

/// What hosts of one group exchange with hosts of several others at the same time, over one fabric; those of
/// the group are on the left.
struct UplinkLoad {
  std::size_t group = 0;
  std::vector<std::size_t> others;  ///< groups
  topology::NicKind kind = topology::NicKind::kTcp;
  std::string fabric;
  Step pairs;
  std::vector<std::size_t> other_of;  ///< by pair, an index into `others`
};

/// For each group that shares a link with each of several others over one fabric, as the loads `shared` show;
/// where it has a host for each of two of them at least.
std::vector<UplinkLoad> uplink_loads(const std::vector<topology::Host>& hosts,
                                     const std::vector<HostGroup>& groups,
                                     const std::vector<GroupLoad>& shared);

/// What a group attains with one of the others, one direction, in bytes per second.
struct UplinkShare {
  double shared = 0;          ///< all pairs with this other at once, none with the rest; 0: nothing is shared
  double of_single_pair = 0;  ///< one pair alone
};

/// What the group's own link carries: where all others together attained clearly less than each would by
/// itself. By other; `together` by pair. Nothing where they use links of their own, or one shares none.
std::optional<double> uplink_rate(const UplinkLoad& load, const std::vector<UplinkShare>& shares,
                                  const std::vector<double>& together);

}  // namespace tombolo::probe
