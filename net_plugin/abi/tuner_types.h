// What all versions of NCCL's tuner interface share. The values index NCCL's table of costs.
#pragma once

#include <cstddef>
#include <cstdint>

#include "net_plugin/abi/types.h"

namespace tombolo::net_plugin::abi {

/// NCCL asks the tuner for the first five; the numbers above them differ between releases, so that any may
/// come.
enum ncclFunc_t : int {
  ncclFuncBroadcast = 0,
  ncclFuncReduce = 1,
  ncclFuncAllGather = 2,
  ncclFuncReduceScatter = 3,
  ncclFuncAllReduce = 4,
};

/// Algorithms: the rows of the table. Older releases know fewer.
inline constexpr int NCCL_ALGO_UNDEF = -1;
inline constexpr int NCCL_ALGO_TREE = 0;
inline constexpr int NCCL_ALGO_RING = 1;

/// Protocols: the columns of the table.
inline constexpr int NCCL_PROTO_UNDEF = -1;
inline constexpr int NCCL_PROTO_LL = 0;
inline constexpr int NCCL_PROTO_LL128 = 1;
inline constexpr int NCCL_PROTO_SIMPLE = 2;

/// The cost of what this communicator cannot use. All other costs are microseconds.
inline constexpr float NCCL_ALGO_PROTO_IGNORE = -1.0F;

}  // namespace tombolo::net_plugin::abi
