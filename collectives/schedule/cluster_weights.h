// How clusters whose links are unlike share the work of an all-reduce among three or more of them.
#pragma once

#include <cstdint>
#include <vector>

namespace tombolo::collectives {

/// How much each of several clusters should combine for the others (RankMap::cluster_weights), by the bytes
/// per second that a pair of hosts attains from one cluster to another alone, 0 where nobody knows. A cluster
/// that combines the share w of S bytes sends and gets S (1 + (k - 2) w) of k clusters in all, and S (w + w')
/// with one that combines w': little where it combines little, so that slow uplinks and slow pairs of
/// clusters end last. What a cluster attains with any other one is taken for its uplink. Empty, for equal
/// shares, where unequal ones would save less than a twentieth. Pure: the same figures give the same weights
/// on every machine, since they are only divided and compared.
std::vector<std::uint32_t> cluster_weights(const std::vector<std::vector<double>>& bytes_per_second);

}  // namespace tombolo::collectives
