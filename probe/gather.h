// Texts of unequal length from every rank, on every rank.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "collectives/communicator.h"

namespace tombolo::probe {

/// Collective. By rank. At most 1 MiB each; throws kInvalidUsage beyond.
std::vector<std::string> gather_texts(collectives::Communicator& communicator, const std::string& mine);

/// Collective. The hosts of all ranks, each once, in order of their first rank; `leader` is that rank.
struct LedHost {
  topology::Host host;
  int leader = 0;
  std::vector<int> ranks;
};
std::vector<LedHost> gather_hosts(collectives::Communicator& communicator, const topology::Host& mine);

}  // namespace tombolo::probe
