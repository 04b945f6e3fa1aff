// Who runs where, and whether there is room.
#pragma once

#include <vector>

#include "bench/perf/flags.h"
#include "tombolo/tombolo.hpp"

namespace tombolo::bench {

/// One rank, and the place it runs at.
struct Device {
  int rank = 0;
  int pid = 0;
  int number = 0;  ///< among the ranks of its process
  char host[256] = {};
};

/// Every rank's, on every rank. Collective.
std::vector<Device> gather_devices(const api::Communicator& communicator, int ranks_here);

/// Throws kInvalidUsage where the buffers of all ranks of this host would not fit into what memory it has
/// left. Collective.
void check_memory(const Flags& flags, const api::Communicator& communicator,
                  const std::vector<Device>& devices);

}  // namespace tombolo::bench
