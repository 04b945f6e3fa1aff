// What a connection offers whose messages can go on over another connection once its own way has failed
// (routing/failover_connection.h).
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <vector>

namespace tombolo::transport {

/// Only connections whose route says `resumable` offer it. Such a connection reports a send as done no
/// earlier than the peer's NIC has acknowledged it, so that the buffer of every other send can be sent again.
/// Used by the connection's own thread.
class Resumable {
 public:
  /// Takes a message that had come before its receive was posted: its number, by the order of the
  /// connection's messages from 0, and its bytes, which are gone when the call returns.
  using Early = std::function<void(std::uint64_t sequence, std::span<const std::byte> bytes)>;

  /// Whether error() says that the way has failed, and not the peer, the program or a message. False while
  /// there is no error.
  virtual bool path_failed() const noexcept = 0;

  /// The names of this end's NICs that the failed way used.
  virtual std::vector<std::string> nics() const = 0;

  /// Ends the connection; error() is set afterwards. Until then what is not done stays pending, also where
  /// path_failed(). All that the NICs had received by then is delivered:
  /// test() answers kDone for such a receive, and kFailed for others, into which nothing is written any more.
  /// Nothing is read from the buffers of sends any more either. What has come and lacks a receive goes to
  /// `early`, in order. Waits for the NICs at most a second; the next calls do nothing.
  virtual void fence(const Early& early) noexcept = 0;

 protected:
  ~Resumable() = default;
};

}  // namespace tombolo::transport
