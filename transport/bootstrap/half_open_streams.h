// The handshakes that a process runs with the peers that connect to it.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <string_view>
#include <vector>

#include "base/limited_warning.h"
#include "transport/bootstrap/handshake.h"
#include "transport/bootstrap/listening_sockets.h"
#include "transport/bootstrap/registrations.h"
#include "transport/descriptor.h"
#include "transport/endpoint.h"
#include "transport/sockets/closing_sockets.h"
#include "transport/sockets/exchange.h"
#include "transport/sockets/tls_stream.h"

namespace tombolo::transport::bootstrap {

/// How long a peer may take until its hello is complete. After that it has as long as its hello says, up to
/// kMostPatience.
inline constexpr Duration kHelloTime = std::chrono::seconds(10);
inline constexpr Duration kMostPatience = std::chrono::seconds(600);

/// How long the accepting end waits for an honest peer that has said hello.
Duration patience_of(const Hello& hello);

/// Accepts streams, runs the handshake on each, and puts those that passed it into the inbox that
/// `registrations` names. One per process. A stranger can hold up nobody: a call accepts and reads a bounded
/// amount, and no error that a stream meets goes further than to that stream. Thread-safe.
class HalfOpenStreams {
 public:
  /// The streams that one call accepts at most at each address.
  static constexpr int kMostAccepted = 16;
  /// Each unfinished handshake costs a descriptor. When there are so many, the oldest is dropped, those
  /// without a hello before those with one. An honest peer tries again.
  static constexpr std::size_t kMost = 256;

  /// `process` is the number of this process (Endpoint::process); streams that mean another are refused.
  /// Refused streams go to `refused`, so that their peers read why. All others outlive this object. Throws
  /// kSystem.
  HalfOpenStreams(std::uint64_t process, Registrations& registrations, sockets::ClosingSockets& refused,
                  const Clock& clock);

  /// Listens for a router. Throws kSystem naming NIC and address.
  std::shared_ptr<const LocalEnd> open(std::shared_ptr<const Local> local, Endpoint endpoint);
  /// Listens for it no more, and drops the handshakes with it.
  void leave(const LocalEnd& end) noexcept;

  /// Moves all handshakes. Returns at once where another thread is at it. True where a stream was refused
  /// since the last call, so that `refused` has something to do.
  bool progress() noexcept;
  /// Readable while progress() has something to do.
  int wait_handle() const noexcept { return epoll_.get(); }

 private:
  /// A stream whose handshake has not ended.
  struct HalfOpen {
    enum class State { kFirst, kSecuring, kHello, kChallenge, kProof };
    Descriptor socket;
    std::unique_ptr<sockets::TlsStream> tls;
    std::string nic, address;  // where it came in
    std::size_t nth = 0;       // as in ListeningSocket
    std::uint64_t door = 0;    // the listening socket's key
    std::string peer;
    TimePoint until;
    State state = State::kFirst;
    sockets::MessageReader reader;
    sockets::MessageWriter writer;
    std::vector<std::byte> hello_bytes, challenge_bytes;
    Hello hello;
    std::shared_ptr<const LocalEnd> end;  // that it is for; null until it has said that
    std::size_t offer = 0;                // of that end
    const Local& local() const noexcept { return *end->local; }
    sockets::StreamIo io() const noexcept { return {socket.get(), tls.get()}; }
    /// The value that only the two ends of its TLS session know; empty without TLS.
    std::vector<std::byte> binding() const;
  };

  void move_all();
  void take_new(std::uint64_t door);
  bool take_one(std::uint64_t door, const ListeningSocket& from);
  void note_lost(const ListeningSocket& from, std::string_view why) noexcept;
  void make_room();
  void expire();
  bool advance_safely(HalfOpen& half);
  /// Moves a handshake. True while it goes on; false once it has succeeded or failed.
  bool advance(HalfOpen& half);
  bool secure(HalfOpen& half);
  bool choose_keys(HalfOpen& half);
  bool advance_hello(HalfOpen& half);
  bool meet(HalfOpen& half, const Destination& to);
  bool refuse(HalfOpen& half, HandshakeStatus status, std::string_view why);
  bool refuse_tls(HalfOpen& half);
  bool send_off(HalfOpen& half, std::vector<std::byte> answer, std::string_view why);
  bool drop(const HalfOpen& half, std::string_view why) noexcept;
  bool check_proof(HalfOpen& half);
  void trust(HalfOpen& half);
  bool give_reply(HalfOpen& half, HandshakeStatus status, std::uint32_t legs_listener = 0);
  const Log& log_of(const HalfOpen& half) const noexcept;

  std::uint64_t process_;
  Registrations& registrations_;
  sockets::ClosingSockets& refused_;
  const Clock* clock_;
  Descriptor epoll_;

  std::mutex mutex_;  // protects all members below
  std::uint64_t next_key_ = 0;
  ListeningSockets sockets_;
  std::map<std::uint64_t, HalfOpen> half_open_;  // by age
  int accept_error_ = 0;                         // the last one that was to be logged
  LimitedWarning accept_warning_, lost_warning_;
  std::map<HalfOpen::State, LimitedWarning> drop_warnings_;
  bool refused_some_ = false;  // since the last call of progress()
};

}  // namespace tombolo::transport::bootstrap
