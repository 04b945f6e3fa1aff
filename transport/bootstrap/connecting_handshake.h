// The connecting end's half of the handshake, on one connected socket: says hello, proves that this end holds
// the secret, and wants the same proof of the peer. HalfOpenStreams runs the accepting end's half.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/error.h"
#include "transport/bootstrap/handshake.h"
#include "transport/bootstrap/local.h"
#include "transport/sockets/exchange.h"
#include "transport/sockets/tls_stream.h"

namespace tombolo::transport::bootstrap {

/// Knows nothing of attempts before it or after it, nor of time: who runs it decides how long the peer may
/// take. Used by one thread at a time.
class ConnectingHandshake {
 public:
  /// Uses the non-blocking `socket`, which has to live as long. `tls` is the session by which the stream is
  /// encrypted; null for a plain stream. `hello` goes out as it is.
  ConnectingHandshake(std::shared_ptr<const Local> local, Hello hello, int socket,
                      std::unique_ptr<sockets::TlsStream> tls);

  /// Moves as far as it can without blocking, until it is ready() or has failed.
  void poll();

  /// The peer has proved that it holds the secret, and has accepted the stream.
  bool ready() const noexcept { return state_ == State::kReady; }
  struct Failure {
    std::string why;
    bool lasting = false;  ///< no later attempt can succeed
    Cause cause = Cause::kRemote;
  };
  /// Nothing while it has not failed.
  const std::optional<Failure>& failure() const noexcept { return failure_; }
  /// Whether the peer may have accepted the stream, because the proof has begun to go out. True of one that
  /// failed after that, too.
  bool may_be_accepted() const noexcept { return state_ >= State::kProof; }

  /// What the peer said of itself, once ready.
  const Reply& reply() const noexcept { return reply_; }
  /// The stream's TLS session, once ready; null for a plain stream.
  std::unique_ptr<sockets::TlsStream> take_tls() noexcept { return std::move(tls_); }
  /// The events of poll(2) that it waits for.
  short awaited_events() const noexcept;

 private:
  enum class State : std::uint8_t { kSecuring, kHello, kChallenge, kProof, kReply, kReady };
  /// How the peer answers this end's TLS. Only its first byte tells; later ones may be anything.
  enum class Answer : std::uint8_t { kNone, kTls, kPlain };

  Answer look_for_answer();
  // One for each state that poll() may leave, in their order.
  void secure();
  void send_hello();
  void receive_challenge();
  void check_challenge();
  void send_proof();
  void receive_reply();
  void check_reply();
  /// What it means that the peer does not have what the hello asks for.
  std::string gone() const;
  std::string gone_by_tls() const;
  std::vector<std::byte> binding() const;
  sockets::StreamIo io() const noexcept { return {socket_, tls_.get()}; }
  bool joins() const noexcept { return hello_.purpose == Purpose::kJoin; }
  void differ(std::string why, Cause cause = Cause::kRemote);
  void end(std::string why);

  std::shared_ptr<const Local> local_;
  Hello hello_;
  int socket_;
  std::unique_ptr<sockets::TlsStream> tls_;
  Answer answer_ = Answer::kNone;
  State state_;
  std::vector<std::byte> hello_bytes_, challenge_;
  sockets::MessageReader reader_;
  sockets::MessageWriter writer_;
  Reply reply_;
  std::optional<Failure> failure_;
};

}  // namespace tombolo::transport::bootstrap
