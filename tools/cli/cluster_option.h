// The option --cluster of every command that reads a cluster file.
#pragma once

#include <string>

#include "topology/files/cluster_file.h"

namespace tombolo::tools {

/// Loads the file of --cluster, or else of TOMBOLO_CLUSTER. Throws kInvalidUsage where neither is given.
topology::ClusterFile load_cluster(const std::string& option);

}  // namespace tombolo::tools
