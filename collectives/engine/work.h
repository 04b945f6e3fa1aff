// What stands for an operation that was started.
#pragma once

#include <cstdint>

namespace tombolo::collectives {

enum class WorkKind : std::uint8_t { kMessage, kCollective };

/// A started operation. Owned by the communicator; redeemed exactly once by wait() or by test() == true.
struct Work {
  WorkKind kind = WorkKind::kMessage;
  std::uint32_t index = 0;
  std::uint32_t generation = 0;
};

}  // namespace tombolo::collectives
