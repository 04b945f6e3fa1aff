// Opens one authenticated stream: connects, proves that this end holds the secret, and retries what may still
// succeed.
#pragma once

#include <poll.h>

#include <memory>
#include <string>
#include <vector>

#include "transport/bootstrap/handshake.h"
#include "transport/bootstrap/local.h"
#include "transport/sockets/exchange.h"
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
  Dial(std::shared_ptr<const Local> local, std::shared_ptr<const Target> target, Deadline deadline);

  enum class State {
    kWaiting,
    kConnecting,
    kConnected,
    kSecuring,
    kHello,
    kChallenge,
    kProof,
    kReply,
    kReady
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
  std::unique_ptr<sockets::TlsStream> take_tls() noexcept { return std::move(tls_); }
  /// What the peer said of itself, once ready.
  const Reply& reply() const noexcept { return reply_; }
  /// The epoch in the hello that the peer accepted.
  std::uint32_t epoch() const noexcept { return greeting_.epoch; }
  /// Whether the peer's kernel refused the last attempt, because no socket listens there.
  bool refused() const noexcept { return refused_; }
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
  bool secure();
  void send_hello();
  void receive_challenge();
  void check_challenge();
  void send_proof();
  void receive_reply();
  /// How long the peer may take for the handshake, TLS included. Its end may be gone without this kernel
  /// being told, and an attempt that is given up too early costs another only, so it doubles each time.
  Duration patience() const noexcept;
  void check_reply();
  /// What it means that the peer does not have what the hello asks for.
  std::string gone() const;
  std::string gone_by_tls() const;
  std::vector<std::byte> binding() const;
  void differ(std::string why, Cause cause = Cause::kRemote);
  void retry(std::string why);
  [[noreturn]] void give_up(Cause cause, std::string_view why) const;

  std::shared_ptr<const Local> local_;
  std::shared_ptr<const Target> target_;
  Deadline deadline_;  // told to the peer; the owner of the dial has to keep it
  Descriptor socket_;
  std::unique_ptr<sockets::TlsStream> tls_;
  /// How the peer answers this end's TLS. Only its first byte tells; later ones may be anything.
  enum class Answer { kNone, kTls, kPlain };
  Answer answer_ = Answer::kNone;
  State state_ = State::kWaiting;
  TimePoint again_{};  // kWaiting: when to (re)try
  TimePoint since_{};  // when this attempt began
  Duration longest_attempt_ = Duration::max();
  TimePoint greeted_{};      // when this attempt's handshake began
  unsigned unanswered_ = 0;  // attempts whose handshake the peer left unanswered
  bool refused_ = false, turned_away_ = false;
  TimePoint refused_since_{};  // refused_: the first of the attempts in a row that were
  Hello greeting_;
  std::size_t streams_ = 0;  // 0: not greeted yet
  std::vector<std::byte> hello_, challenge_;
  sockets::MessageReader reader_;
  sockets::MessageWriter writer_;
  Reply reply_;
  std::string last_trouble_;
};

}  // namespace tombolo::transport::bootstrap
