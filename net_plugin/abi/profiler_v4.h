// Version 4 of NCCL's profiler interface. NCCL 2.27 to 2.30 look this version up. It adds what the
// communicator is called and which rank this is, which the descriptions of collectives lose, and updates of
// networks' events.
#pragma once

#include <cstddef>
#include <cstdint>

#include "net_plugin/abi/profiler_v3.h"

namespace tombolo::net_plugin::abi {

struct ncclProfilerEventDescr_v4_t {
  std::uint8_t type;
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

static_assert(offsetof(ncclProfilerEventDescr_v4_t, detail) ==
                  offsetof(ncclProfilerEventDescr_v1_t, detail) &&
              offsetof(ncclProfilerEventDescr_v4_t, coll.func) == 32 &&
              offsetof(ncclProfilerEventDescr_v4_t, p2p.func) == 24);

union ncclProfilerEventStateArgs_v4_t {
  struct {
    std::size_t transSize;
  } proxyStep;
  struct {
    void* data;  ///< what the network gave
  } netPlugin;
};

static_assert(sizeof(ncclProfilerEventStateArgs_v4_t) == 8);

struct ncclProfiler_v4_t {
  const char* name;
  ncclResult_t (*init)(void** context, int* eActivationMask, const char* commName, std::uint64_t commHash,
                       int nNodes, int nranks, int rank, ncclDebugLogger_t logfn);
  ncclResult_t (*startEvent)(void* context, void** eHandle, ncclProfilerEventDescr_v4_t* eDescr);
  ncclResult_t (*stopEvent)(void* eHandle);
  ncclResult_t (*recordEventState)(void* eHandle, ncclProfilerEventState_t eState,
                                   ncclProfilerEventStateArgs_v4_t* eStateArgs);
  ncclResult_t (*finalize)(void* context);
};

static_assert(sizeof(ncclProfiler_v4_t) == 6 * sizeof(void*));

}  // namespace tombolo::net_plugin::abi
