// Tells every rank about the hosts of all others.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "collectives/engine/gather_texts.h"

namespace tombolo::probe {

using collectives::gather_texts;

/// A host, and the ranks that run on it.
struct HostRanks {
  topology::Host host;  ///< without a cluster ("") where it was detected
  int leader = 0;       ///< its first rank
  std::vector<int> ranks;
};

/// Collective. Returns the hosts of all ranks, each once, in the order of their first ranks.
std::vector<HostRanks> gather_hosts(collectives::Communicator& communicator, const topology::Host& mine);

}  // namespace tombolo::probe
