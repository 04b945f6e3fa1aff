// Links and ports that several pairs of NICs share: found by loading these at once. Pure.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "probe/rounds/schedule.h"
#include "topology/files/cluster_file.h"

namespace tombolo::probe {

/// The rates that pairs of NICs attained in one direction, in bytes per second.
struct LoadSample {
  std::vector<double> alone;     ///< each by itself
  std::vector<double> together;  ///< all at once; of the same pairs
};

double sum_of(const std::vector<double>& rates);

/// The speed of a link that all the pairs share. There is one where together they attained clearly less
/// (under three quarters) than the sum of what each attained alone. Its speed is what all attained together,
/// or what one did alone where that is about as much. Nothing for fewer than two pairs, where one attained
/// nothing, or where all together attained clearly less than one alone, which no shared link explains.
std::optional<double> shared_rate(const LoadSample& sample);

/// The pairs of NICs from one host to another, all at once, in one direction.
struct PortSample {
  std::size_t from = 0, to = 0;                 ///< hosts
  std::vector<std::size_t> from_nics, to_nics;  ///< by pair of NICs
  LoadSample load;
};

/// Finds NICs of one host that share a port, in the direction of the samples: at least two that clearly lost
/// speed with every other host, or both of two NICs whose sum is clearly too little. Where the host was
/// measured with only one other, the two ends cannot be told apart, and the link is reported between just
/// these two. Two ports of two NICs each are reported as one of four. NICs with under two fifths of the
/// fastest one's speed are left out, because their loss would be too small to notice.
std::vector<topology::SharedLink> find_shared_ports(const std::vector<topology::Host>& hosts,
                                                    const std::vector<PortSample>& samples);

/// Corrects pairs that were measured while others used the same shared link, and so attained less than they
/// do alone. Raises the links that cross `shared` to what the load's pair attained `alone`, but no NIC above
/// what it attains elsewhere.
void raise_to_alone(std::vector<topology::Link>& links, const topology::SharedLink& shared, double alone);

}  // namespace tombolo::probe
