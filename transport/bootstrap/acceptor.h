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

#include "base/limited_warning.h"
#include "transport/bootstrap/background_progress.h"
#include "transport/bootstrap/closing_sockets.h"
#include "transport/bootstrap/exchange.h"
#include "transport/bootstrap/handshake.h"
#include "transport/bootstrap/inbox.h"
#include "transport/bootstrap/local.h"
#include "transport/endpoint.h"

namespace tombolo::transport::bootstrap {

/// One per router, shared with its listeners and connections, which keep it alive because a connection whose
/// streams broke is found again through it. Every listener and connection that waits for a stream calls
/// progress(), which moves all handshakes; the background thread does so too. Thread-safe.
class Acceptor {
 public:
  /// Binds the address of each of `self`'s offers. Throws kSystem naming NIC and address.
  Acceptor(std::shared_ptr<const Local> local, Endpoint self);

  const std::shared_ptr<const Local>& local() const noexcept { return local_; }
  /// This process's endpoint, with the ports; its `listener` is 0.
  const Endpoint& endpoint() const noexcept { return endpoint_; }
  /// The port on the NIC with that address; 0 where there is none.
  std::uint16_t port_of(const std::string& address) const noexcept;

  /// Streams of new connections for the returned listener number go to `inbox`, as long as another owner
  /// holds it.
  std::uint32_t open_listener(const std::shared_ptr<Inbox>& inbox);
  /// Streams that rejoin that connection go to `inbox`, as long as another owner holds it.
  void open_connection(const Nonce& connection, const std::shared_ptr<Inbox>& inbox);
  /// A peer may miss the goodbye where a frame was cut short, and then asks whether the connection still
  /// exists. For the idle timeout after this call the background thread answers such questions, once it is
  /// woken.
  void close_connection(const Nonce& connection) noexcept;

  /// Moves connections whose owners make no calls.
  BackgroundProgress& background_progress() noexcept { return background_progress_; }

  /// Keeps the sockets of closed connections until their last bytes have arrived.
  ClosingSockets& closing_sockets() noexcept { return closing_sockets_; }

  void progress();
  /// Readable while progress() has something to do.
  int wait_handle() const noexcept { return epoll_.get(); }

 private:
  /// A stream whose handshake has not ended.
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
    /// The value that only the two ends of its TLS session know; empty without TLS.
    std::vector<std::byte> binding() const;
  };

  void take_new(std::size_t offer);
  void make_room();
  void resume_accepting();
  void expire();
  /// Moves a handshake. True while it goes on; false once it has succeeded or failed.
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

  std::mutex mutex_;                             // protects all members below
  std::map<std::uint64_t, HalfOpen> half_open_;  // by age
  std::uint64_t next_key_;
  std::uint32_t next_listener_ = 1;
  std::map<std::uint32_t, std::weak_ptr<Inbox>> listeners_;
  std::map<Nonce, std::weak_ptr<Inbox>> connections_;
  TimePoint asked_until_{};  // peers of closed connections may ask until then
  int accept_error_ = 0;     // the last one that was logged
  std::map<HalfOpen::State, LimitedWarning> drop_warnings_;
  /// When the process is out of descriptors, nothing is accepted until then, because a listening socket with
  /// a waiting connection stays readable and would keep the loop busy.
  TimePoint paused_until_{};
  ClosingSockets closing_sockets_{local_->idle_timeout};
  BackgroundProgress background_progress_{[this] {
    progress();
    return closing_sockets_.progress() || may_be_asked();
  }};  // declared last, so that it ends first
};

/// How long the acceptor waits for an honest peer that has said hello.
Duration patience_of(const Hello& hello);

/// The route of a connection, by its first stream or its control channel.
Route route_of(const Acceptor& acceptor, const AuthenticatedStream& stream);

}  // namespace tombolo::transport::bootstrap
