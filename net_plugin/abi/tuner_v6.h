// Version 6 of NCCL's tuner interface. NCCL 2.30 looks this version up. It adds the size of the chunks into
// which NCCL cuts a collective.
#pragma once

#include <cstddef>
#include <cstdint>

#include "net_plugin/abi/tuner_v5.h"

namespace tombolo::net_plugin::abi {

using ncclNvlDomainInfo_v6_t = ncclNvlDomainInfo_v5_t;
using ncclTunerConstants_v6_t = ncclTunerConstants_v5_t;

struct ncclTuner_v6_t {
  const char* name;
  ncclResult_t (*init)(void** ctx, std::uint64_t commId, std::size_t nRanks, std::size_t nNodes,
                       ncclDebugLogger_t logFunction, ncclNvlDomainInfo_v6_t* nvlDomainInfo,
                       ncclTunerConstants_v6_t* constants);
  ncclResult_t (*getCollInfo)(void* context, ncclFunc_t collType, std::size_t nBytes, int numPipeOps,
                              float** collCostTable, int numAlgo, int numProto, int regBuff, int* nChannels);
  ncclResult_t (*finalize)(void* context);
  /// `chunkSize` holds NCCL's own on entry. NCCL bounds the answer by its buffers.
  ncclResult_t (*getChunkSize)(void* context, ncclFunc_t collType, std::size_t nBytes, int algo, int proto,
                               int nChannels, std::size_t* chunkSize);
};

static_assert(sizeof(ncclTuner_v6_t) == 5 * sizeof(void*));

}  // namespace tombolo::net_plugin::abi
