// Version 5 of NCCL's tuner interface. NCCL 2.28 to 2.30 look this version up. It adds the communicator's
// number, its NVLink domains, and the constants of NCCL's own model, which a tuner may change.
#pragma once

#include <cstddef>
#include <cstdint>

#include "net_plugin/abi/tuner_types.h"

namespace tombolo::net_plugin::abi {

struct ncclNvlDomainInfo_v5_t {
  int nNvlDomains;
  int minRanksPerNvlDomain;
  int maxRanksPerNvlDomain;
};

inline constexpr int NCCL_NUM_ALGORITHMS_V5 = 7;
inline constexpr int NCCL_NUM_PROTOCOLS_V5 = 3;
inline constexpr int NCCL_NUM_HW_LINKS_V5 = 3;
inline constexpr int NCCL_NUM_COMPCAPS_V5 = 4;
inline constexpr int NCCL_NUM_TUNING_SCALES_V5 = 3;

/// Tombolo leaves them as they are.
struct ncclTunerConstants_v5_t {
  double baseLatencies[NCCL_NUM_ALGORITHMS_V5][NCCL_NUM_PROTOCOLS_V5];
  double hwLatencies[NCCL_NUM_HW_LINKS_V5][NCCL_NUM_ALGORITHMS_V5][NCCL_NUM_PROTOCOLS_V5];
  double llMaxBws[NCCL_NUM_COMPCAPS_V5][NCCL_NUM_TUNING_SCALES_V5];
  double perChMaxRingLL128Bws[NCCL_NUM_COMPCAPS_V5][NCCL_NUM_TUNING_SCALES_V5];
  double perChMaxTreeLL128Bws[NCCL_NUM_COMPCAPS_V5][NCCL_NUM_TUNING_SCALES_V5];
  double perChMaxTreeBws[NCCL_NUM_COMPCAPS_V5][NCCL_NUM_TUNING_SCALES_V5];
  double perChMaxNVLSTreeBws[NCCL_NUM_COMPCAPS_V5][NCCL_NUM_TUNING_SCALES_V5];
};

static_assert(sizeof(ncclTunerConstants_v5_t) == 144 * sizeof(double));

struct ncclTuner_v5_t {
  const char* name;
  ncclResult_t (*init)(void** ctx, std::uint64_t commId, std::size_t nRanks, std::size_t nNodes,
                       ncclDebugLogger_t logFunction, ncclNvlDomainInfo_v5_t* nvlDomainInfo,
                       ncclTunerConstants_v5_t* constants);
  ncclResult_t (*getCollInfo)(void* context, ncclFunc_t collType, std::size_t nBytes, int numPipeOps,
                              float** collCostTable, int numAlgo, int numProto, int regBuff, int* nChannels);
  ncclResult_t (*finalize)(void* context);
};

static_assert(sizeof(ncclTuner_v5_t) == 4 * sizeof(void*));

}  // namespace tombolo::net_plugin::abi
