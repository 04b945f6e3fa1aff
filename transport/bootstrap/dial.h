// Opens one authenticated stream: connects, runs the handshake, and tries again what may still succeed.
#pragma once

#include <poll.h>

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "transport/bootstrap/connecting_handshake.h"
#include "transport/bootstrap/handshake.h"
#include "transport/bootstrap/local.h"
#include "transport/sockets/socket.h"

namespace tombolo::transport::bootstrap {

/// Where one stream goes: from which NIC of this end, to which address of the peer.
struct Target {
  std::string nic, local_address;  ///< of this end
  std::string peer_nic;            ///< may be empty
  sockets::SocketAddress peer;
  double bytes_per_second = 0;  ///< that both NICs promise; 0 = unknown
  bool tls = false;             ///< the stream is encrypted
  std::string description;      ///< "connect to rank 3 on host b0 (NIC ...)", for errors
};

class Dial {
 public:
  /// How long the peer may leave a handshake unanswered at first. Twice as long after each time that it did.
  static constexpr Duration kAnswerWithin = std::chrono::seconds(3);

  Dial(std::shared_ptr<const Local> local, std::shared_ptr<const Target> target, Deadline deadline);

  enum class State : std::uint8_t {
    kWaiting,  ///< for the time of the next attempt
    kConnecting,
    kConnected,  ///< to be greeted
    kHandshake,
    kReady,
  };
  /// Moves as far as it can without blocking; before greet() it gets no further than kConnected. Throws for
  /// what cannot succeed later: another secret, another version, a program that is not Tombolo, a carrier
  /// that the peer does not have.
  State poll();
  /// Says hello on a connected stream, for a carrier that this process can use. `hello` needs no nonce; its
  /// host and NIC are filled in here. `streams` as for Backend::prepare_stream().
  void greet(Hello hello, std::size_t streams);

  /// Begins an attempt again when the peer's kernel has not answered it for so long.
  void limit_attempts(Duration longest) noexcept { longest_attempt_ = longest; }

  State state() const noexcept { return state_; }
  int socket() const noexcept { return socket_.get(); }
  Descriptor take_socket() noexcept { return std::move(socket_); }
  /// The stream's TLS session; null for a plain stream.
  std::unique_ptr<sockets::TlsStream> take_tls() noexcept { return handshake_->take_tls(); }
  /// What the peer said of itself, once ready.
  const Reply& reply() const noexcept { return handshake_->reply(); }
  /// The epoch in the hello that the peer accepted.
  std::uint32_t epoch() const noexcept { return greeting_.epoch; }
  /// Whether the peer may have accepted this attempt without this end knowing yet.
  bool may_be_accepted() const noexcept { return handshake_ && handshake_->may_be_accepted(); }
  /// Whether the peer's kernel refused the last attempt, because no socket listens there.
  bool refused() const noexcept { return refused_since_.has_value(); }
  /// For how long every attempt was refused so; zero where the last one was not.
  Duration refused_for() const noexcept;
  /// Whether the other side ended the last attempt on purpose: it refused it, or accepted and then closed it.
  bool turned_away() const noexcept { return turned_away_; }
  /// Why the last attempt failed; empty for none yet.
  const std::string& last_trouble() const noexcept { return last_trouble_; }

  /// Appends what to poll(2) for; returns the longest time to sleep.
  Duration append_wait_handles(std::vector<pollfd>& handles, TimePoint now) const;

 private:
  // One for each state that poll() may leave, in their order.
  void begin_attempt();
  void end_connecting();
  void begin_handshake();
  void go_on_with_handshake();
  /// How long the peer may take for the handshake, TLS included. Its end may be gone without this kernel
  /// being told, and an attempt that is given up too early costs another only, so it doubles each time.
  Duration patience() const noexcept;
  void retry(std::string why, bool turned_away);

  std::shared_ptr<const Local> local_;
  std::shared_ptr<const Target> target_;
  Deadline deadline_;  // told to the peer; the owner of the dial has to keep it
  Hello greeting_;
  std::size_t streams_ = 0;  // 0: not greeted yet

  State state_ = State::kWaiting;
  TimePoint again_{};  // kWaiting: when to (re)try
  TimePoint since_{};  // when connecting began, or the handshake did
  Duration longest_attempt_ = Duration::max();
  Descriptor socket_;
  std::optional<ConnectingHandshake> handshake_;  // uses the socket; there from kHandshake on

  // How the attempts so far have ended.
  unsigned unanswered_ = 0;                 // those whose handshake the peer left unanswered
  std::optional<TimePoint> refused_since_;  // the first of the attempts in a row that were refused
  bool turned_away_ = false;
  std::string last_trouble_;
};

}  // namespace tombolo::transport::bootstrap
