// The functions of NCCL's tuner interface, as far as its versions share them. NCCL gives a communicator up
// where a tuner fails, so all of them succeed, and a tuner that cannot be made changes nothing.
#pragma once

#include <cstddef>

#include "net_plugin/abi/tuner_types.h"
#include "net_plugin/tuner/tuner.h"

namespace tombolo::net_plugin::tuner_entry {

/// Makes the communicator's tuner, or null where there is none to make. Reads TOMBOLO_TUNER and the cluster
/// file, or TOMBOLO_TUNER_LINK, when a communicator of the process is first made.
abi::ncclResult_t init(std::size_t ranks, std::size_t nodes, abi::ncclDebugLogger_t logger,
                       void** context) noexcept;
abi::ncclResult_t finalize(void* context) noexcept;

/// From v3 on.
abi::ncclResult_t get_costs(void* context, abi::ncclFunc_t function, std::size_t bytes, int operations,
                            CostTable table, int* channels) noexcept;
/// v2. NCCL's own number of channels stands, since 2.21 does not bound the tuner's by those that it has.
/// Leaves the choice to NCCL where the user has set NCCL_ALGO or NCCL_PROTO, which v2 would override.
abi::ncclResult_t get_choice(void* context, abi::ncclFunc_t function, std::size_t bytes, int operations,
                             int* algorithm, int* protocol) noexcept;
/// v6.
abi::ncclResult_t get_chunk_size(void* context, int channels, std::size_t* size) noexcept;

}  // namespace tombolo::net_plugin::tuner_entry
