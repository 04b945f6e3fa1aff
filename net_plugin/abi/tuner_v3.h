// Version 3 of NCCL's tuner interface. NCCL 2.22 to 2.30 look this version up. It hands over a table of costs
// instead of a choice.
#pragma once

#include <cstddef>

#include "net_plugin/abi/tuner_types.h"

namespace tombolo::net_plugin::abi {

struct ncclTuner_v3_t {
  const char* name;
  ncclResult_t (*init)(std::size_t nRanks, std::size_t nNodes, ncclDebugLogger_t logFunction, void** context);
  /// `collCostTable` is in truth a float[numAlgo][numProto].
  ncclResult_t (*getCollInfo)(void* context, ncclFunc_t collType, std::size_t nBytes, int numPipeOps,
                              float** collCostTable, int numAlgo, int numProto, int* nChannels);
  ncclResult_t (*destroy)(void* context);
};

static_assert(sizeof(ncclTuner_v3_t) == 4 * sizeof(void*));

}  // namespace tombolo::net_plugin::abi
