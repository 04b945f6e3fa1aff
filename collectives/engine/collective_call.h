// A collective and its arguments.
#pragma once

#include <cstddef>

#include "collectives/data/data_type.h"
#include "collectives/schedule/collective.h"

namespace tombolo::collectives {

/// The arguments are as Communicator's function of the collective's name takes them; those that it does not
/// have are ignored.
struct CollectiveCall {
  Collective collective = Collective::kBarrier;
  const void* send = nullptr;
  void* receive = nullptr;
  std::size_t count = 0;
  DataType type = DataType::kInt8;
  ReduceOp op = ReduceOp::kSum;
  int root = 0;
};

}  // namespace tombolo::collectives
