// Version 1 of NCCL's profiler interface. NCCL 2.23 to 2.30 look this version up.
#pragma once

#include <cstddef>
#include <cstdint>

#include "net_plugin/abi/profiler_types.h"

namespace tombolo::net_plugin::abi {

struct ncclProfilerEventDescr_v1_t {
  std::uint8_t type;
  void* parentObj;  ///< what startEvent gave for the event around this one
  int rank;
  ncclProfilerEventDetail detail;
};

static_assert(offsetof(ncclProfilerEventDescr_v1_t, parentObj) == 8 &&
              offsetof(ncclProfilerEventDescr_v1_t, rank) == 16 &&
              offsetof(ncclProfilerEventDescr_v1_t, detail) == 24 &&
              offsetof(ncclProfilerEventDescr_v1_t, detail.proxyOp.isSend) == 44 &&
              offsetof(ncclProfilerEventDescr_v1_t, detail.netPlugin.data) == 32);

union ncclProfilerEventStateArgs_v1_t {
  struct {
    std::size_t transSize;
    int steps;
  } proxyOp;
};

struct ncclProfiler_v1_t {
  const char* name;
  ncclResult_t (*init)(void** context, int* eActivationMask);
  ncclResult_t (*startEvent)(void* context, void** eHandle, ncclProfilerEventDescr_v1_t* eDescr);
  ncclResult_t (*stopEvent)(void* eHandle);
  ncclResult_t (*recordEventState)(void* eHandle, ncclProfilerEventState_t eState,
                                   ncclProfilerEventStateArgs_v1_t* eStateArgs);
  ncclResult_t (*finalize)(void* context);
};

static_assert(sizeof(ncclProfiler_v1_t) == 6 * sizeof(void*));

}  // namespace tombolo::net_plugin::abi
