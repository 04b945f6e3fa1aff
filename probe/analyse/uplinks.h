// Uplinks: a link over which everything goes that a cluster sends to other clusters, or receives from them.
// Pure.
#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <vector>

#include "probe/rounds/schedule.h"
#include "topology/files/cluster_file.h"

namespace tombolo::probe {

/// A load in which hosts of one group exchange bytes with hosts of several others at the same time, over one
/// fabric. The group's hosts are on the left of each pair.
struct UplinkLoad {
  std::size_t group = 0;
  std::vector<std::size_t> others;  ///< groups
  topology::NicKind kind = topology::NicKind::kTcp;
  std::string fabric;
  Step pairs;
  std::vector<std::size_t> other_of;  ///< by pair, an index into `others`
};

/// Makes a load for each group that shares a link with each of several others over one fabric, as the loads
/// `shared` show. The group needs a host for each of at least two of them.
std::vector<UplinkLoad> uplink_loads(const std::vector<topology::Host>& hosts,
                                     const std::vector<HostGroup>& groups,
                                     const std::vector<GroupLoad>& shared);

/// The rates that a group attains with one of the others, one direction, in bytes per second.
struct UplinkShare {
  double shared = 0;  ///< all pairs with this other group at once, none with the rest; 0: no link is shared
  double of_single_pair = 0;  ///< one pair alone
};

/// The speed of the group's own link, which exists where all others together attained clearly less than the
/// sum of what each attained by itself. `shares` is by other group, `together` by pair. Nothing where the
/// others have links of their own, or one of them shares none.
std::optional<double> uplink_rate(const UplinkLoad& load, const std::vector<UplinkShare>& shares,
                                  const std::vector<double>& together);

}  // namespace tombolo::probe
