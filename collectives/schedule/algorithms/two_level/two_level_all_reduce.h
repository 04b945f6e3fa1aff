// All-reduce that crosses the slow links between clusters once: reduce-scatter inside each cluster, an
// exchange between the owners of the same elements in all clusters, all-gather inside. With two clusters
// each direction of the link between them carries the vector exactly once; with k clusters of equal
// shares 2 (k - 1) / k times (cluster_weights.h has the shares where rates are known). Clusters may differ in
// size: the exchange is cut at the union of all clusters' shard borders. Inside a cluster the ranks of a host
// come first, then those of one place on each host, where all hosts of the cluster have the same number of
// ranks.
#pragma once

#include "collectives/schedule/algorithm.h"

namespace tombolo::collectives {

extern const Algorithm kTwoLevelAllReduce;

}  // namespace tombolo::collectives
