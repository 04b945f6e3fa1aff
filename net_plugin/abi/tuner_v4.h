// Version 4 of NCCL's tuner interface. NCCL 2.24 to 2.30 look this version up. It adds whether the buffers
// are registered.
#pragma once

#include <cstddef>

#include "net_plugin/abi/tuner_types.h"

namespace tombolo::net_plugin::abi {

struct ncclTuner_v4_t {
  const char* name;
  ncclResult_t (*init)(std::size_t nRanks, std::size_t nNodes, ncclDebugLogger_t logFunction, void** context);
  ncclResult_t (*getCollInfo)(void* context, ncclFunc_t collType, std::size_t nBytes, int numPipeOps,
                              float** collCostTable, int numAlgo, int numProto, int regBuff, int* nChannels);
  ncclResult_t (*destroy)(void* context);
};

static_assert(sizeof(ncclTuner_v4_t) == 4 * sizeof(void*));

}  // namespace tombolo::net_plugin::abi
