// NCCL's request of a one-sided operation.
#pragma once

#include <cstdint>
#include <string>

#include "net_plugin/rma/protocol.h"
#include "net_plugin/rma/window.h"
#include "transport/one_sided.h"

namespace tombolo::net_plugin::rma {

struct Operation {
  enum class State : std::uint8_t { kFree, kUnderWay, kDone, kFailed };
  enum class Way : std::uint8_t {
    kOpen,     ///< not decided yet
    kMessage,  ///< the other rank carries it out
    kNic       ///< the NICs move its bytes; a signal is a message behind them
  };

  void begin(std::uint32_t to, const RequestFrame& request, const Window* from, std::uint64_t from_offset) {
    state = State::kUnderWay;
    way = Way::kOpen;
    rank = to;
    frame = request;
    local = from;
    local_offset = from_offset;
  }
  bool has_signal() const noexcept { return frame.signal_window != kNoWindow; }
  /// What the other rank is asked for.
  RequestFrame message() const noexcept {
    RequestFrame asked = frame;
    if (way != Way::kNic) return asked;
    asked.window = kNoWindow;
    asked.offset = asked.bytes = 0;
    return asked;
  }

  State state = State::kFree;
  Way way = Way::kOpen;
  std::uint32_t rank = 0;  ///< that it asks
  RequestFrame frame;
  const Window* local = nullptr;  ///< what is put, or where to get; null where there are no bytes
  std::uint64_t local_offset = 0;
  transport::OneSidedOperation nic;  ///< kNic
};

/// "put of 4096 bytes to rank 3, window 2 at offset 8192, with a signal at offset 16 of window 1".
std::string describe(const Operation& operation);

}  // namespace tombolo::net_plugin::rma
