// A line for one-sided operations that do not get on, so that a job which hangs in one says where.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>

#include "base/clock.h"
#include "net_plugin/comms/stall.h"
#include "transport/transport.h"

namespace tombolo::net_plugin::rma {

/// What the oldest operation that is not done waits for.
enum class OperationWaits : std::uint8_t {
  kConnection,  ///< to the other rank, which is being made
  kTurn,        ///< it has not been sent: what lies before it, or the transport, has to get on
  kNic,         ///< the NICs move its bytes
  kAnswer,      ///< the other rank's
};

struct OperationStall {
  std::string operation;   ///< describe(Operation)
  std::size_t behind = 0;  ///< operations on the same rank that wait behind it
  std::uint32_t rank = 0;  ///< that is asked
  OperationWaits waits = OperationWaits::kAnswer;
  const transport::Route* route = nullptr;  ///< null: kConnection
  Duration stalled{};
};

/// The line: who waits for whom, how long, in which operation, and what it may mean. Pure.
std::string stall_text(const StallReports& of, const OperationStall& facts);

}  // namespace tombolo::net_plugin::rma
