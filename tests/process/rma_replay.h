// A replay of NCCL's one-sided operations: ranks that put, get and raise signals at random, and compare every
// byte and every signal with what the plan says.
#pragma once

#include <functional>

#include "base/sanitizer.h"
#include "tests/process/rma_ranks.h"

namespace tombolo::tests {

struct Replay {
  int version;  ///< of NCCL's table
  bool on_gpu;  ///< whether the windows are in memory of the pretended GPU
  unsigned seed;
  int steps = kSanitized ? 60 : 200;                         ///< of each rank
  std::function<void(int rank, int step)> before_step = {};  ///< if set, called before a rank posts that step
};

/// One rank's part, in a process of its own. Throws where anything is not as the plan says.
void replay(const Replay& run, int rank, int ranks, Bootstrap& bootstrap);

}  // namespace tombolo::tests
