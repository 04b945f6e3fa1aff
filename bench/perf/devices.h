// Finds out where the ranks of a job run, and whether their hosts have enough memory.
#pragma once

#include <vector>

#include "bench/perf/flags.h"
#include "tombolo/tombolo.hpp"

namespace tombolo::bench {

/// One rank, with its host and process.
struct Device {
  int rank = 0;
  int pid = 0;
  int number = 0;  ///< number of the rank within its process
  char host[256] = {};
  char declared[64] = {};  ///< its host's name in a cluster file: TOMBOLO_HOST, or `host`
};

/// The devices of all ranks, by rank, on every rank. Collective.
std::vector<Device> gather_devices(const api::Communicator& communicator, int ranks_here);

/// Throws kInvalidUsage where the buffers of all ranks of this host would not fit into its free memory.
/// Collective.
void check_memory(const Flags& flags, const api::Communicator& communicator,
                  const std::vector<Device>& devices);

}  // namespace tombolo::bench
