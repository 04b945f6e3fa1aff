// Version 5 of NCCL's profiler interface. NCCL 2.28 to 2.30 look this version up. Types of events have 64
// bits, and init's arguments another order.
#pragma once

#include <cstddef>
#include <cstdint>

#include "net_plugin/abi/profiler_v4.h"

namespace tombolo::net_plugin::abi {

struct ncclProfilerEventDescr_v5_t {
  std::uint64_t type;
  void* parentObj;
  int rank;
  union {
    ncclProfilerEventDetail detail;
    struct {
      std::uint64_t seqNumber;
      const char* func;
    } coll;
    struct {
      const char* func;
    } p2p;
  };
};

static_assert(offsetof(ncclProfilerEventDescr_v5_t, parentObj) == 8 &&
              offsetof(ncclProfilerEventDescr_v5_t, rank) == 16 &&
              offsetof(ncclProfilerEventDescr_v5_t, detail) == 24 &&
              offsetof(ncclProfilerEventDescr_v5_t, coll.func) == 32 &&
              offsetof(ncclProfilerEventDescr_v5_t, p2p.func) == 24);

using ncclProfilerEventStateArgs_v5_t = ncclProfilerEventStateArgs_v4_t;

struct ncclProfiler_v5_t {
  const char* name;
  ncclResult_t (*init)(void** context, std::uint64_t commId, int* eActivationMask, const char* commName,
                       int nNodes, int nranks, int rank, ncclDebugLogger_t logfn);
  ncclResult_t (*startEvent)(void* context, void** eHandle, ncclProfilerEventDescr_v5_t* eDescr);
  ncclResult_t (*stopEvent)(void* eHandle);
  ncclResult_t (*recordEventState)(void* eHandle, ncclProfilerEventState_t eState,
                                   ncclProfilerEventStateArgs_v5_t* eStateArgs);
  ncclResult_t (*finalize)(void* context);
};

static_assert(sizeof(ncclProfiler_v5_t) == 6 * sizeof(void*));

}  // namespace tombolo::net_plugin::abi
