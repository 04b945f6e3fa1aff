// The folder rounds/ owns which pairs of NICs are measured together, and runs those measurements. This file
// makes the schedule: steps of measurements that run at the same time. Every rank computes the same one.
// Pure.
#pragma once

#include <cstddef>
#include <vector>

#include "topology/files/cluster_file.h"

namespace tombolo::probe {

/// One measurement, both directions at once: indices of the two hosts (the left one leads) and of their NICs.
struct NicPair {
  std::size_t left = 0, right = 0, left_nic = 0, right_nic = 0;

  friend bool operator==(const NicPair&, const NicPair&) = default;
};

using Step = std::vector<NicPair>;

/// Indices of hosts.
using HostGroup = std::vector<std::size_t>;

/// Steps with every pair of NICs between every two hosts once. In each step a host is in at most one
/// measurement.
std::vector<Step> pair_steps(const std::vector<topology::Host>& hosts);

/// Disjoint pairs of hosts of two groups, over one fabric; at least two. The first pair is to be measured
/// alone, and then all at once.
struct GroupLoad {
  std::size_t first = 0, second = 0;  ///< indices of the groups; the first's hosts are on the left
  topology::NicKind kind = topology::NicKind::kTcp;
  std::string fabric;
  Step pairs;
};

/// Makes a load for each two groups and each fabric on which hosts of both have NICs.
std::vector<GroupLoad> group_loads(const std::vector<topology::Host>& hosts,
                                   const std::vector<HostGroup>& groups);

/// Steps in which pairs of hosts load all their NICs at once. Each NIC is in one pair of NICs, and each host
/// in at most one pair of hosts. Host pairs with fewer than two such pairs of NICs are left out. A host is
/// paired with two others of its group, so that a shared port of its own can be told from one of theirs;
/// hosts that are alone in their groups are paired with each other. The number of steps, at most three, does
/// not grow with the number of hosts.
std::vector<Step> port_steps(const std::vector<topology::Host>& hosts, const std::vector<HostGroup>& groups);

}  // namespace tombolo::probe
