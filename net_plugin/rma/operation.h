// NCCL's request of a one-sided operation.
#pragma once

#include <cstdint>
#include <string>

#include "net_plugin/rma/protocol.h"
#include "net_plugin/rma/window.h"

namespace tombolo::net_plugin::rma {

struct Operation {
  enum class State : std::uint8_t { kFree, kUnderWay, kDone, kFailed };

  State state = State::kFree;
  std::uint32_t rank = 0;  ///< that it asks
  RequestFrame frame;
  const Window* local = nullptr;  ///< what is put, or where to get; null where there are no bytes
  std::uint64_t local_offset = 0;
};

/// "put of 4096 bytes to rank 3, window 2 at offset 8192, with a signal at offset 16 of window 1".
std::string describe(const Operation& operation);

}  // namespace tombolo::net_plugin::rma
