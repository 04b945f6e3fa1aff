// How the messages of GPU memory go on over a way that reaches host memory alone, once the NICs fail that
// reached it (routing/failover_connection.h). Whoever gives it to a router knows of GPUs; transports do not.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>

#include "transport/transport.h"

namespace tombolo::transport {

/// Of one connection: what was made for it in set-up, so that nothing has to be made when its NICs fail.
class GpuStaging {
 public:
  virtual ~GpuStaging() = default;

  /// Set-up, by any thread: makes what copies of that GPU memory need. Why its messages cannot go over a way
  /// that reaches host memory alone; empty where they can. Throws kInvalidUsage for memory that is no GPU's.
  virtual std::string prepare(std::span<std::byte> memory) = 0;

  /// Returns once GPUs see all that NICs, which may be dead now, have written into memory that was prepared.
  /// Throws kSystem. By one thread at a time.
  virtual void flush_nic_writes() = 0;

  /// A connection that carries host memory, as one that carries what was prepared, too. Both ends do so, and
  /// nothing else may go over it. What was made in set-up is its own then: there is one at a time, and this
  /// outlives it.
  virtual std::unique_ptr<Connection> stage(std::unique_ptr<Connection> leg) = 0;
};

/// Of a connection with that label. Null: its messages are of host memory alone. Both ends must answer alike.
/// Set-up: throws kSystem where memory for it cannot be had.
using GpuStagingMaker = std::function<std::unique_ptr<GpuStaging>(std::uint64_t label)>;

}  // namespace tombolo::transport
