// Bootstrap: how two processes come to a stream that both trust. This folder owns listening, dialing, the
// handshake, TLS, the secret, and what all transports need besides: control channels, goodbyes, closing
// sockets, background progress. It knows no transport; Backend (transport/backend.h) is its way to them.
//
// The acceptor has the listening sockets on all NICs of a process, and runs the handshake with every peer
// that connects.
#pragma once

#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <string_view>
#include <vector>

#include "transport/bootstrap/background_progress.h"
#include "transport/bootstrap/closing_sockets.h"
#include "transport/bootstrap/exchange.h"
#include "transport/bootstrap/handshake.h"
#include "transport/bootstrap/inbox.h"
#include "transport/bootstrap/local.h"
#include "transport/endpoint.h"

namespace tombolo::transport::bootstrap {

/// One per router; shared by its listeners and its connections, and kept by them, since a connection whose
/// streams broke is found again through it. Every listener and connection that waits for a stream calls
/// progress(), which moves all handshakes; the background thread does so too. Thread-safe.
class Acceptor {
 public:
  /// Binds the address of each of `self`'s offers. Throws kSystem naming NIC and address.
  Acceptor(std::shared_ptr<const Local> local, Endpoint self);

  const std::shared_ptr<const Local>& local() const noexcept { return local_; }
  /// This process's endpoint, with the ports; its `listener` is 0.
  const Endpoint& endpoint() const noexcept { return endpoint_; }
  /// The port on the NIC with that address; 0 = none.
  std::uint16_t port_of(const std::string& address) const noexcept;

  /// Streams of new connections for that listener go to `inbox`, as long as somebody else holds it.
  std::uint32_t open_listener(const std::shared_ptr<Inbox>& inbox);
  /// Streams that rejoin that connection go to `inbox`, as long as somebody else holds it.
  void open_connection(const Nonce& connection, const std::shared_ptr<Inbox>& inbox);
  /// A peer that got no goodbye, since a frame was cut short, asks whether the connection is still there. For
  /// the idle timeout after this call the background thread answers, once it is woken.
  void close_connection(const Nonce& connection) noexcept;

  /// Moves connections whose owners make no calls.
  BackgroundProgress& background_progress() noexcept { return background_progress_; }

  /// Where closed connections leave their sockets.
  ClosingSockets& closing_sockets() noexcept { return closing_sockets_; }

  void progress();
  /// Readable while progress() has something to do.
  int wait_handle() const noexcept { return epoll_.get(); }

 private:
  /// A stream whose handshake is not over.
  struct HalfOpen {
    enum class State { kFirst, kSecuring, kHello, kReply, kFinish };
    Descriptor socket;
    std::unique_ptr<TlsStream> tls;
    std::size_t offer = 0;  // the NIC it came in on
    std::string peer;
    TimePoint until;
    State state = State::kFirst;
    MessageReader reader;
    MessageWriter writer;
    std::vector<std::byte> hello_bytes, reply_bytes;
    Hello hello;
    StreamIo io() const noexcept { return {socket.get(), tls.get()}; }
    /// What only the two ends of its TLS session know; nothing without TLS.
    std::vector<std::byte> binding() const;
  };

  void take_new(std::size_t offer);
  void make_room();
  void resume_accepting();
  void expire();
  /// True while the handshake goes on; false once it is over, well or not.
  bool advance(HalfOpen& half);
  bool secure(HalfOpen& half);
  bool advance_hello(HalfOpen& half);
  bool refuse(HalfOpen& half, HandshakeStatus status, std::string_view why);
  bool refuse_tls(HalfOpen& half);
  bool drop(const HalfOpen& half, std::string_view why);
  void trust(HalfOpen& half);
  std::shared_ptr<Inbox> inbox_for(const Hello& hello);
  bool give_verdict(HalfOpen& half, HandshakeStatus verdict);
  bool may_be_asked();

  std::shared_ptr<const Local> local_;
  Endpoint endpoint_;
  std::vector<Descriptor> sockets_;  // by offer
  Descriptor epoll_;

  std::mutex mutex_;                             // for all that follows
  std::map<std::uint64_t, HalfOpen> half_open_;  // by age
  std::uint64_t next_key_;
  std::uint32_t next_listener_ = 1;
  std::map<std::uint32_t, std::weak_ptr<Inbox>> listeners_;
  std::map<Nonce, std::weak_ptr<Inbox>> connections_;
  TimePoint asked_until_{};  // peers of closed connections may ask until then
  int accept_error_ = 0;     // the last one that was logged
  /// Out of descriptors: until then nothing is accepted, since a listening socket with a waiting connection
  /// stays readable.
  TimePoint paused_until_{};
  ClosingSockets closing_sockets_{local_->idle_timeout};
  BackgroundProgress background_progress_{[this] {
    progress();
    return closing_sockets_.progress() || may_be_asked();
  }};  // ends first
};

/// How long an honest peer is waited for that has said hello.
Duration patience_of(const Hello& hello);

/// The route of a connection whose first stream, or control channel, that is.
Route route_of(const Acceptor& acceptor, const AuthenticatedStream& stream);

}  // namespace tombolo::transport::bootstrap
