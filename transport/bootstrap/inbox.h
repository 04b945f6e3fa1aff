// Streams that have passed the handshake wait here, until the listener or connection that they belong to
// takes them.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <memory>
#include <mutex>
#include <optional>
#include <string>

#include "transport/bootstrap/handshake.h"
#include "transport/descriptor.h"
#include "transport/sockets/tls_stream.h"

namespace tombolo::transport::bootstrap {

class Inbox;

/// A listener that peers may have heard of already and that has no owner yet: their streams wait. It is gone
/// with the last that holds the inbox.
struct ReservedListener {
  std::uint32_t number = 0;      ///< Endpoint::listener; 0: none
  std::shared_ptr<Inbox> inbox;  ///< null: none
};

/// A stream whose other end holds the secret.
struct AuthenticatedStream {
  Descriptor socket;
  Hello hello;
  std::size_t offer = 0;                    ///< the NIC it came in on: index into the acceptor's offers
  std::string peer;                         ///< address and port
  std::unique_ptr<sockets::TlsStream> tls;  ///< null: plain
  ReservedListener legs = {};               ///< of a new connection that is resumable
};

/// The streams that wait for one listener or connection. Thread-safe.
class Inbox {
 public:
  void put(AuthenticatedStream stream);
  std::optional<AuthenticatedStream> take();
  /// Whether no stream waits. Cheap enough for every turn of progress.
  bool empty() const noexcept { return waiting_.load(std::memory_order_acquire) == 0; }
  /// Readable while something waits. Made at the first call, since most inboxes are never waited for.
  /// Negative where the process is out of descriptors.
  int wait_handle();

 private:
  std::mutex mutex_;
  std::deque<AuthenticatedStream> streams_;
  std::atomic<std::size_t> waiting_{0};
  Descriptor event_;
};

}  // namespace tombolo::transport::bootstrap
