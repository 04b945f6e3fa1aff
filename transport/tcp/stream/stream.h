// One stream of a TCP connection: its socket and TLS session, its state, its epochs, and its two sides. The
// stream outlives its sockets: each epoch has a socket of its own. Used by one thread at a time.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "transport/bootstrap/dial.h"
#include "transport/descriptor.h"
#include "transport/observe/meters.h"
#include "transport/sockets/stream_io.h"
#include "transport/tcp/path/rate_limit.h"
#include "transport/tcp/stream/receive_side.h"
#include "transport/tcp/stream/send_side.h"
#include "transport/tcp/stream/stream_state.h"

namespace tombolo::transport::tcp {

/// Why a stream is lost.
struct StreamLoss {
  enum class Why : std::uint8_t {
    kEnded,    ///< the peer's kernel ended it in order, without a goodbye
    kGivenUp,  ///< one end gave it up, or replaces it by another socket
    kSilent,   ///< its path answers nothing
    kDamaged,  ///< a checksum did not match
    kAltered,  ///< TLS noticed that its bytes were altered
    kError,    ///< a system call failed
  };
  Why why = Why::kGivenUp;
  int error_number = 0;  ///< of kSilent, kAltered and kError

  /// By the error of a failed read or write: errno, Receiver::kDamaged or TlsStream::kAltered; not 0.
  static StreamLoss of(int error_number) noexcept;
  /// Whether what the kernel still holds of the stream can be used.
  bool leaves_rest() const noexcept { return why != Why::kDamaged && why != Why::kAltered; }
  /// Whether another path should be tried first: the peer may have noticed a silence before this end has.
  bool doubts_path() const noexcept {
    return why == Why::kEnded || why == Why::kGivenUp || why == Why::kSilent;
  }
};

/// Whether a stream is worth a system call, as far as epoll has told. Counts with several streams only.
struct Readiness {
  bool in = true, out = true;
  bool hang_up = false;  ///< keep reading until the end of the stream is seen

  /// Takes the events of epoll_wait(2).
  void note(std::uint32_t events) noexcept;
};

/// Where a stream goes, as names, and what its bytes count against.
struct StreamPath {
  std::string local_nic, peer_nic;
  std::shared_ptr<NicRateLimit> limit = {};  ///< may be null
};

class Stream {
 public:
  StreamState state() const noexcept { return state_; }
  bool live() const noexcept { return is_live(state_); }
  bool is(StreamState state) const noexcept { return state_ == state; }
  /// Moves to the state that follows. Throws kInternal for an event that is impossible now.
  void apply(StreamEvent event);

  /// The stream is there, in a higher epoch than before, or in its first; both sides begin anew.
  void join(Descriptor socket, std::unique_ptr<sockets::TlsStream> tls, std::uint32_t epoch);
  /// Closes the socket, which gets a reset unless the peer had ended it: a FIN would tell the peer that this
  /// process has gone. Returns the reason in words.
  std::string lose(const StreamLoss& loss);
  /// Hands the socket on to who closes it, at the connection's end; the session is useless without it.
  Descriptor take_socket() noexcept { return std::move(socket_); }

  int socket() const noexcept { return socket_.get(); }
  sockets::TlsStream* tls() const noexcept { return tls_.get(); }  ///< null: plain
  sockets::StreamIo io() const noexcept { return {socket_.get(), tls_.get()}; }

  std::uint32_t epoch() const noexcept { return epoch_; }
  /// Counts of the chunks received in earlier epochs. The peer is told until it shows that it knows them.
  struct EpochSummary {
    std::uint32_t first_epoch, last_epoch, count;
    friend bool operator==(const EpochSummary&, const EpochSummary&) = default;
  };
  const std::vector<EpochSummary>& epoch_summaries() const noexcept { return epoch_summaries_; }
  /// In each of these epochs, which follow those noted before, so many chunks came.
  void note_epochs(std::uint32_t first, std::uint32_t last, std::uint32_t count);
  /// The peer knows all of them.
  void forget_epochs() noexcept { epoch_summaries_.clear(); }

  SendSide send;
  ReceiveSide receive;

  /// The attempt to open the stream again, perhaps beside its present socket; null while none is under way.
  std::unique_ptr<bootstrap::Dial> dial;
  Readiness ready;
  StreamPath path;
  StreamMeter* meter = nullptr;
  /// Accepting end: the peer may have given up the attempt by which the present socket came, and then drops
  /// what is written to it. That is over with the first bytes that come.
  bool unconfirmed = false;
  std::string trouble;       ///< why it broke last
  unsigned small_reads = 0;  ///< so far, of this socket and those before

 private:
  StreamState state_ = StreamState::kWanted;
  Descriptor socket_;
  std::unique_ptr<sockets::TlsStream> tls_;
  std::uint32_t epoch_ = 0;
  std::vector<EpochSummary> epoch_summaries_;
};

}  // namespace tombolo::transport::tcp
