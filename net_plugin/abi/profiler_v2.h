// Version 2 of NCCL's profiler interface. NCCL 2.24 to 2.30 look this version up. It differs from v1 in what
// describes collectives, which have their names as text.
#pragma once

#include <cstddef>
#include <cstdint>

#include "net_plugin/abi/profiler_v1.h"

namespace tombolo::net_plugin::abi {

struct ncclProfilerEventDescr_v2_t {
  std::uint8_t type;
  void* parentObj;
  int rank;
  union {
    ncclProfilerEventDetail detail;
    struct {
      const char* name;
      std::uint64_t commHash;
      std::uint64_t seqNumber;
      const char* func;  ///< "AllReduce", ...
    } coll;
    struct {
      const char* name;
      std::uint64_t commHash;
      const char* func;  ///< "Send", "Recv"
    } p2p;
  };
};

static_assert(offsetof(ncclProfilerEventDescr_v2_t, detail) ==
                  offsetof(ncclProfilerEventDescr_v1_t, detail) &&
              offsetof(ncclProfilerEventDescr_v2_t, coll.func) == 48 &&
              offsetof(ncclProfilerEventDescr_v2_t, p2p.func) == 40);

using ncclProfilerEventStateArgs_v2_t = ncclProfilerEventStateArgs_v1_t;

struct ncclProfiler_v2_t {
  const char* name;
  ncclResult_t (*init)(void** context, int* eActivationMask);
  ncclResult_t (*startEvent)(void* context, void** eHandle, ncclProfilerEventDescr_v2_t* eDescr);
  ncclResult_t (*stopEvent)(void* eHandle);
  ncclResult_t (*recordEventState)(void* eHandle, ncclProfilerEventState_t eState,
                                   ncclProfilerEventStateArgs_v2_t* eStateArgs);
  ncclResult_t (*finalize)(void* context);
};

static_assert(sizeof(ncclProfiler_v2_t) == 6 * sizeof(void*));

}  // namespace tombolo::net_plugin::abi
