// What a connection offers whose messages can go on over another connection once its own way has failed
// (routing/failover_connection.h).
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "base/error.h"

namespace tombolo::transport {

/// What such a connection has reported as sent has reached the peer's NIC, or the connection has a copy of
/// it; and the buffer of every other send can be sent again. Used by the connection's own thread.
class Resumable {
 public:
  /// Takes a message: its number, by the order of the connection's messages from 0, and its bytes, which are
  /// gone when the call returns.
  using Take = std::function<void(std::uint64_t sequence, std::span<const std::byte> bytes)>;

  /// Whether error() says that the way has failed, and not the peer, the program or a message. False while
  /// there is no error.
  virtual bool path_failed() const noexcept = 0;

  /// A pair of NICs between which the messages go.
  struct PairOfNics {
    std::string nic;           ///< this end's
    std::string peer_address;  ///< of the peer's NIC, as its endpoint names it; connecting end only
    bool failed = false;       ///< by what this end has noticed, or the other has said
  };
  /// In an order that both ends share. Empty where the way mends failures of its NICs itself.
  virtual std::vector<PairOfNics> nic_pairs() const = 0;
  /// Notes which of them have failed at the peer's end: bit i stands for the i-th.
  virtual void peer_says_failed(std::uint64_t pairs) noexcept = 0;

  /// GPU memory that is registered no longer makes a failure of the way one of the connection.
  virtual void let_gpu_memory_move() noexcept {}

  /// Ends the connection; error() is set afterwards. Until then what is not done stays pending, also where
  /// path_failed(). All that the NICs had received by then is delivered:
  /// test() answers kDone for such a receive, and kFailed for others, into which nothing is written any more.
  /// Nothing is read from the buffers of sends any more either. What has come and lacks a receive goes to
  /// `early`, in order; and what was reported as sent and may not have arrived, to `unsure`. Waits for the
  /// NICs at most a second; the next calls do nothing. An error says why something of all that may be
  /// missing: then no other way may go on.
  [[nodiscard]] virtual std::optional<Error> fence(const Take& early, const Take& unsure) noexcept = 0;

 protected:
  ~Resumable() = default;
};

}  // namespace tombolo::transport
