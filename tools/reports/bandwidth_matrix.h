// Measured links as text tables, one per kind of NIC and fabric.
#pragma once

#include <string>

#include "topology/files/cluster_file.h"

namespace tombolo::tools {

/// A matrix of attained bandwidth (rows send, columns receive) and the range of latencies, per kind and
/// fabric, the best kind first. Ends with a line end; empty without links. Pure.
std::string bandwidth_matrix(const topology::ClusterFile& cluster);

}  // namespace tombolo::tools
