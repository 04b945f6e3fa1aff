// Through which NICs of its host each device sends.
#pragma once

#include <vector>

#include "topology/files/cluster_file.h"

namespace tombolo::planner {

/// Of `nics` (indices in the host's list), those through which each device sends, as NCCL chooses: the
/// nearest by their places on the PCI bus, or where these are unknown those of its NUMA node, or where that
/// tells nothing all of them. Devices to which the same NICs are the nearest divide them in order: each gets
/// as many as there are for one, and at least one. Ascending; empty only where `nics` is.
std::vector<std::vector<int>> nics_of_devices(const topology::Host& host, const std::vector<int>& nics);

}  // namespace tombolo::planner
