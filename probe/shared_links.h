// Links that many pairs share: found by loading several pairs at once.
#pragma once

#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "topology/cluster_file.h"

namespace tombolo::probe {

/// What disjoint pairs of NICs from one cluster to another attained, one direction, on one fabric.
struct LoadSample {
  std::string from_cluster, to_cluster, fabric;
  std::vector<topology::NicName> from, to;  ///< all NICs of the clusters on the fabric
  double alone = 0;                         ///< bytes per second of the first pair by itself
  std::vector<double> together;             ///< of each pair while all were loaded; the first as `alone`
  std::vector<double> nominal;              ///< of each pair, what its slower NIC could carry; 0 = unknown
};

/// A link that all of them share, where together they attained clearly less than each could have: under three
/// quarters of what the first pair attained alone, or of their own NICs' rates where these are less. Its
/// speed is what all attained together, or what one pair did alone where that fills it. Pure.
std::optional<topology::SharedLink> find_shared_link(const LoadSample& sample);

}  // namespace tombolo::probe
