// Bootstrap: how two processes come to a stream that both trust. This folder owns listening, dialing and the
// handshake, and what all connections of a process share, such as the background thread. The sockets and TLS
// sessions themselves are those of sockets/. It knows no transport; Backend (transport/backend.h) is its way
// to them.
//
// The acceptor is one router's part of what accepts streams in a process: all routers share the listening
// sockets, the handshakes that are under way, the background thread and the closing sockets
// (process_helpers.h).
#pragma once

#include <memory>
#include <string>

#include "transport/bootstrap/background_progress.h"
#include "transport/bootstrap/handshake.h"
#include "transport/bootstrap/inbox.h"
#include "transport/bootstrap/local.h"
#include "transport/bootstrap/local_end.h"
#include "transport/bootstrap/process_helpers.h"
#include "transport/endpoint.h"
#include "transport/kernel.h"
#include "transport/sockets/closing_sockets.h"

namespace tombolo::transport::bootstrap {

/// One per router, shared with its listeners and connections, which keep it alive because a connection whose
/// streams broke is found again through it. Every listener and connection that waits for a stream calls
/// progress(), which moves all handshakes; the background thread does so too. Thread-safe.
class Acceptor {
 public:
  /// Listens at the address of each of `self`'s offers; fills in the process. Throws kSystem naming NIC and
  /// address.
  Acceptor(std::shared_ptr<ProcessHelpers> helpers, std::shared_ptr<const Local> local, Endpoint self);
  /// When this returns, nothing is written to the router's log any more.
  ~Acceptor();
  Acceptor(const Acceptor&) = delete;
  Acceptor& operator=(const Acceptor&) = delete;

  /// Whether this is a forked child's copy. It has no peers, and a thread that is not there may hold the
  /// locks.
  bool is_copy() const noexcept { return generation_ != fork_generation(); }
  /// Throws kInvalidUsage where it is one: what a process had made before stays with it.
  void check_process() const;

  const std::shared_ptr<const Local>& local() const noexcept { return end_->local; }
  /// This process's endpoint, with the ports and the process; its `listener` is 0.
  const Endpoint& endpoint() const noexcept { return end_->endpoint; }
  /// The port on the NIC with that address; 0 where there is none.
  std::uint16_t port_of(const std::string& address) const noexcept;

  // As in Registrations.
  std::uint32_t open_listener(const std::shared_ptr<Inbox>& inbox);
  /// For the idle timeout after this call the background thread answers peers that ask for the listener, if
  /// others keep the sockets open.
  void close_listener(std::uint32_t number) noexcept;
  bool open_connection(const Nonce& connection, Side side, const std::shared_ptr<Inbox>& inbox);
  /// For a listener that takes up a stream: the connection that it joins may have begun, or even ended, since
  /// the stream came to the listener's inbox. Then true, and it is in the connection's inbox or, where that
  /// is closed, gone.
  bool pass_on(AuthenticatedStream& stream);
  /// For the idle timeout after this call the background thread answers peers that ask for the connection, or
  /// that join it late.
  void close_connection(const Nonce& connection, Side side) noexcept;

  BackgroundProgress& background_progress() noexcept { return helpers_->background_progress(); }
  sockets::ClosingSockets& closing_sockets() noexcept { return helpers_->closing_sockets(); }
  ClosingPatience& closing_patience() noexcept { return helpers_->closing_patience(); }

  void progress() noexcept { helpers_->progress(); }
  /// Readable while progress() has something to do.
  int wait_handle() const noexcept { return helpers_->half_open_streams().wait_handle(); }

 private:
  unsigned generation_ = fork_generation();
  std::shared_ptr<ProcessHelpers> helpers_;
  std::shared_ptr<const LocalEnd> end_;
  /// What answers for closed connections: without the log and the transports, which their owners may end.
  std::shared_ptr<const LocalEnd> remembered_;
};

/// The route of a connection, by its first stream or its control channel.
Route route_of(const Acceptor& acceptor, const AuthenticatedStream& stream);

}  // namespace tombolo::transport::bootstrap
