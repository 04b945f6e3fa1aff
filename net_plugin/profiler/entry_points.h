// The functions of NCCL's profiler interface, as far as its versions share them. All succeed: a profiler that
// cannot work records nothing, and must not end a job.
#pragma once

#include <cstdint>

#include "net_plugin/abi/profiler.h"
#include "net_plugin/profiler/profile.h"

namespace tombolo::net_plugin::profiler_entry {

/// What init is told of a communicator; up to v3 it is nothing.
struct CommunicatorInfo {
  const char* name = nullptr;  ///< may be null
  std::uint64_t id = 0;
  abi::ncclDebugLogger_t logger = nullptr;
};

/// Sets the mask to the events that TOMBOLO_PROFILER needs, which is 0 where it is not set; the context is
/// null then. `network_events` says whether this version of the interface has them.
abi::ncclResult_t init(void** context, int* mask, const CommunicatorInfo& info, bool network_events) noexcept;
/// Logs the communicator's sums by row and by kind of collective, or writes the trace when it is the last
/// one.
abi::ncclResult_t finalize(void* context) noexcept;

/// An event of a collective, or of a send or receive, by its name in NCCL.
abi::ncclResult_t start_collective(void* context, void** event, const char* name) noexcept;
abi::ncclResult_t start(void* context, void** event, std::uint64_t type, void* parent, int rank,
                        const abi::ncclProfilerEventDetail& detail) noexcept;
abi::ncclResult_t stop(void* event) noexcept;
/// `update` is what the network gave with an update of its event, else null.
abi::ncclResult_t record(void* event, abi::ncclProfilerEventState_t state, void* update) noexcept;

}  // namespace tombolo::net_plugin::profiler_entry
