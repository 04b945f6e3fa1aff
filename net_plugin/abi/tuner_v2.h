// Version 2 of NCCL's tuner interface. NCCL 2.21 to 2.30 look this version up; 2.21 knows no later one.
#pragma once

#include <cstddef>

#include "net_plugin/abi/tuner_types.h"

namespace tombolo::net_plugin::abi {

struct ncclTuner_v2_t {
  const char* name;
  ncclResult_t (*init)(std::size_t nRanks, std::size_t nNodes, ncclDebugLogger_t logFunction, void** context);
  ncclResult_t (*getCollInfo)(void* context, ncclFunc_t collType, std::size_t nBytes, int collNetSupport,
                              int nvlsSupport, int numPipeOps, int* algorithm, int* protocol, int* nChannels);
  ncclResult_t (*destroy)(void* context);
};

static_assert(sizeof(ncclTuner_v2_t) == 4 * sizeof(void*));

}  // namespace tombolo::net_plugin::abi
