// The calls whose parts have unequal sizes, in the engine's terms.
#pragma once

#include "collectives/engine/collective_call.h"
#include "tombolo/tombolo.h"

namespace tombolo::c_api {

/// What describes a buffer that holds all ranks' parts: arrays by rank; null offsets: the parts adjoin.
struct PartArrays {
  const std::size_t* counts;
  const std::size_t* offsets;
};

// All throw InvalidArgument, naming `function`, for a communicator or root that there is not, and for missing
// counts.

collectives::CollectiveCall all_gather_v(const char* function, tomboloComm_t comm, const void* send,
                                         std::size_t count, void* receive, PartArrays parts);
collectives::CollectiveCall reduce_scatter_v(const char* function, tomboloComm_t comm, const void* send,
                                             void* receive, PartArrays parts);
collectives::CollectiveCall gather_v(const char* function, tomboloComm_t comm, const void* send,
                                     std::size_t count, void* receive, PartArrays parts, int root);
collectives::CollectiveCall scatter_v(const char* function, tomboloComm_t comm, const void* send,
                                      PartArrays parts, void* receive, std::size_t count, int root);
collectives::CollectiveCall all_to_all_v(const char* function, tomboloComm_t comm, const void* send,
                                         PartArrays sent, void* receive, PartArrays received);

}  // namespace tombolo::c_api
