// Links and ports that many share: found by loading several at once. Pure.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "probe/meetings.h"
#include "topology/files/cluster_file.h"

namespace tombolo::probe {

/// What pairs of NICs attained in one direction, bytes per second.
struct LoadSample {
  std::vector<double> alone;     ///< each by itself
  std::vector<double> together;  ///< all at once; of the same pairs
};

double sum_of(const std::vector<double>& rates);

/// What a link that all the pairs share carries, where together they attained clearly less than each could
/// alone: under three quarters. Its speed is what all attained together, or what one did alone where that is
/// as much. Nothing for fewer than two pairs, where one attained nothing, or where all together attained
/// clearly less than one alone: that is no link's doing.
std::optional<double> shared_rate(const LoadSample& sample);

/// The lanes of one host to another, all at once, one direction.
struct PortSample {
  std::size_t from = 0, to = 0;                 ///< hosts
  std::vector<std::size_t> from_nics, to_nics;  ///< by lane
  LoadSample load;
};

/// NICs of one host that share a port, in the direction of the samples: at least two that clearly lost speed
/// whichever other host was at the far end, or of two both where their sum is clearly too little. Where the
/// host met one other only, the two ends cannot be told apart, and the link is between just these two. Two
/// ports of two NICs each count as one of four. NICs of under two fifths of the fastest one's speed
/// tell nothing.
std::vector<topology::SharedLink> find_shared_ports(const std::vector<topology::Host>& hosts,
                                                    const std::vector<PortSample>& samples);

/// A pair that was measured while others used the same shared link attained less than it does alone: raises
/// its `links` to what the load's pair attained `alone`, but no NIC's above what it attains elsewhere.
void raise_to_alone(std::vector<topology::Link>& links, const topology::SharedLink& shared, double alone);

}  // namespace tombolo::probe
