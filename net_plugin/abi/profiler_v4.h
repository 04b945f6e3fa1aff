// Version 4 of NCCL's profiler interface. NCCL 2.27 to 2.30 look this version up. It adds what the
// communicator is called and which rank this is, and updates of networks' events.
#pragma once

#include <cstddef>
#include <cstdint>

#include "net_plugin/abi/profiler_v3.h"

namespace tombolo::net_plugin::abi {

using ncclProfilerEventDescr_v4_t = ncclProfilerEventDescr_v3_t;

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
