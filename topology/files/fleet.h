// The fleet file: describes clusters by the names of their devices and NICs. The library expands it into a
// cluster file to plan with. docs/fleet-file.md documents its JSON format.
#pragma once

#include "base/json.h"
#include "topology/files/cluster_file.h"
#include "topology/files/library.h"

namespace tombolo::topology {

/// Names hosts by their cluster and a number, and NICs by their kind and a number. Nothing has an address,
/// and links and devices attain the library's usual share of their nominal rates unless the fleet file says
/// otherwise. Throws kInvalidUsage naming file, line and field: unknown names, values that are out of range
/// or contradict each other, clusters that nothing joins.
ClusterFile expand_fleet(const JsonDocument& document, const Library& library);

}  // namespace tombolo::topology
