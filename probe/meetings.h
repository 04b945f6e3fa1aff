// What is measured when: steps of meetings that take place at the same time. Every rank makes the same lists.
// Pure.
#pragma once

#include <cstddef>
#include <vector>

#include "topology/files/cluster_file.h"

namespace tombolo::probe {

/// One measurement, both directions at once: indices of the two hosts (the left one leads) and of their NICs.
struct Meeting {
  std::size_t left = 0, right = 0, left_nic = 0, right_nic = 0;

  friend bool operator==(const Meeting&, const Meeting&) = default;
};

using Step = std::vector<Meeting>;

/// Indices of hosts.
using HostGroup = std::vector<std::size_t>;

/// Every lane between every two hosts once. A host is in one meeting of a step at most.
std::vector<Step> pair_steps(const std::vector<topology::Host>& hosts);

/// Disjoint pairs of hosts of two groups, over one fabric; at least two. The first is to be measured alone,
/// then all at once.
struct GroupLoad {
  std::size_t first = 0, second = 0;  ///< indices of the groups; the first's hosts are on the left
  topology::NicKind kind = topology::NicKind::kTcp;
  std::string fabric;
  Step pairs;
};

/// For each two groups and each fabric on which hosts of both have NICs.
std::vector<GroupLoad> group_loads(const std::vector<topology::Host>& hosts,
                                   const std::vector<HostGroup>& groups);

/// Steps in which pairs of hosts load all their NICs at once, each NIC in one lane; a host is in one pair at
/// most. Only of pairs with at least two such lanes. A host meets two others of its group, so that a port
/// of its own can be told from one of theirs; hosts that are alone in their groups meet each other. As many
/// steps for any number of hosts: three at most.
std::vector<Step> port_steps(const std::vector<topology::Host>& hosts, const std::vector<HostGroup>& groups);

}  // namespace tombolo::probe
