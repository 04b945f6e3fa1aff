// What one call of a collective among the ranks of one host asks for.
#pragma once

#include <cstddef>

#include "collectives/data/premultiply.h"
#include "collectives/schedule/collective.h"

namespace tombolo::collectives {

/// A call's arguments. `problem.root` is a place in the group.
struct HostCall {
  Collective collective = Collective::kBarrier;
  Problem problem;
  DataType type = DataType::kInt8;
  ReduceOp op = ReduceOp::kSum;
  const std::byte* input = nullptr;
  std::byte* output = nullptr;
  Factor factor{};  ///< of a problem that is premultiplied
};

}  // namespace tombolo::collectives
