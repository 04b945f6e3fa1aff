// Reading the "fabrics" of a cluster file.
#pragma once

#include <vector>

#include "base/json.h"
#include "topology/files/cluster_file.h"

namespace tombolo::topology {

/// `list`: the array. Throws kInvalidUsage naming file, line and field: a fabric or cluster that no NIC of
/// `hosts` is on or in, an entry given twice, more bytes per second than the NICs' rates allow.
std::vector<FabricDefault> fabrics_of(const JsonCursor& list, const std::vector<Host>& hosts);

}  // namespace tombolo::topology
