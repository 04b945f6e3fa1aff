// What every rank tells all the others about itself.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "collectives/engine/gather_texts.h"

namespace tombolo::probe {

using collectives::gather_texts;

/// Collective. The hosts of all ranks, each once, in order of their first rank; `leader` is that rank. A host
/// that was detected has no cluster ("").
struct LedHost {
  topology::Host host;
  int leader = 0;
  std::vector<int> ranks;
};
std::vector<LedHost> gather_hosts(collectives::Communicator& communicator, const topology::Host& mine);

}  // namespace tombolo::probe
