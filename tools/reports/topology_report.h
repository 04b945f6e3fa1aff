// The output of tombolo topo about a machine, its reach and a fleet, as tables and as JSON. Pure, except that
// it asks for the width of the terminal.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "topology/detect.h"
#include "topology/files/cluster_file.h"
#include "topology/judge/reach.h"

namespace tombolo::tools {

/// One pair of NICs of two hosts, and whether they are expected to reach each other.
struct NicPair {
  const topology::Nic* here;
  const topology::Host* host;
  const topology::Nic* there;
  std::string_view by;
  topology::Reach reach;
};

/// Pairs every usable NIC of this machine with every NIC of the other hosts; by RDMA where both are of the
/// same RDMA kind. The pairs point into both arguments.
std::vector<NicPair> reach_pairs(const topology::Machine& machine, const topology::ClusterFile& others);
std::string reach_table(const std::vector<NicPair>& pairs);

/// Tables of NICs, GPUs and the distances between them.
std::string topology_tables(const topology::Machine& machine);
/// The machine as JSON. `pairs` is null where they were not asked for.
std::string topology_json(const topology::Machine& machine, const std::vector<NicPair>* pairs);

/// Tables of the clusters of a file, and of the attained rates between their NICs.
std::string fleet_tables(const topology::ClusterFile& file);

}  // namespace tombolo::tools
