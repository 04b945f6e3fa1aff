// A connection over one or more TCP streams. It outlives any of them: what a broken stream did not deliver
// goes over the others, and the connecting end opens the stream again in the background
// (connection_repair.cpp).
#pragma once

#include <atomic>
#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "base/clock.h"
#include "base/log.h"
#include "transport/bootstrap/acceptor.h"
#include "transport/bootstrap/dial.h"
#include "transport/bootstrap/local.h"
#include "transport/descriptor.h"
#include "transport/observe/meters.h"
#include "transport/tcp/pacing.h"
#include "transport/tcp/path_control.h"
#include "transport/tcp/rate_limit.h"
#include "transport/tcp/receiver.h"
#include "transport/tcp/sender.h"
#include "transport/tcp/settings.h"
#include "transport/transport.h"

namespace tombolo::transport::tcp {

/// A connected stream, as the handshake hands it over.
struct ConnectedStream {
  Descriptor socket;
  std::string local_nic, peer_nic;
  std::shared_ptr<NicRateLimit> limit;  ///< may be null
  /// Connecting end: the target by which the stream is opened again. Accepting end: the target at which to
  /// ask whether the peer is still there. May be null.
  std::shared_ptr<const bootstrap::Target> target;
  std::unique_ptr<bootstrap::TlsStream> tls = {};  ///< null: plain
  std::uint32_t epoch = 0;                         ///< above 0 where the peer had to join again
};

/// The result of a connection's set-up: what the connection takes over.
struct SetUpResult {
  std::shared_ptr<const TcpSettings> settings;
  std::shared_ptr<bootstrap::Acceptor> acceptor;
  bool connecting = false;  ///< this end opens streams; the other waits for them
  bootstrap::Hello hello;   ///< the one with which the streams came
  Route route;
  std::string peer_name;        ///< "rank 3"; may be empty
  double bytes_per_second = 0;  ///< that the NICs promise together; 0 = unknown
  /// Connecting end: targets of further streams, opened in the background. The connection works without them.
  std::vector<std::shared_ptr<const bootstrap::Target>> wanted;
  std::vector<ConnectedStream> streams;
  /// Where further streams arrive; open in the acceptor already.
  std::shared_ptr<bootstrap::Inbox> inbox = {};
};

class TcpConnection final : public HostMemoryConnection, private bootstrap::Progressable {
 public:
  explicit TcpConnection(SetUpResult from);
  /// Says goodbye. Waits for a bounded time until the peer's kernel has everything that was reported as sent.
  ~TcpConnection() override;

  Request* post_send(std::span<const std::byte> data, Memory* memory) noexcept override;
  Request* post_receive(std::span<std::byte> buffer, Memory* memory) noexcept override;
  Outcome test(Request* request, std::size_t& bytes) noexcept override;
  bool progress() noexcept override;
  void append_wait_handles(std::vector<pollfd>& handles) const override;
  const Error* error() const noexcept override {
    const Turn turn(*this);
    return error_ ? &*error_ : nullptr;
  }
  std::uint64_t label() const noexcept override { return hello_.label; }
  const Route& route() const noexcept override { return route_; }
  Statistics statistics() const noexcept override { return meter_->statistics(); }

 private:
  /// A spin lock, held by the thread that moves the connection: its owner inside a call, or the background
  /// thread between two calls, which takes it only while it is free and releases it soon. Uncontended it
  /// costs one exchange.
  class Turn {
   public:
    explicit Turn(const TcpConnection& of) noexcept : of_(of) {
      while (of_.taken_.exchange(true, std::memory_order_acquire)) std::this_thread::yield();
    }
    ~Turn() { of_.taken_.store(false, std::memory_order_release); }
    Turn(const Turn&) = delete;
    Turn& operator=(const Turn&) = delete;

   private:
    const TcpConnection& of_;
  };
  bool advance() noexcept;
  bootstrap::Side side() const noexcept {
    return connecting_ ? bootstrap::Side::kConnecting : bootstrap::Side::kAccepting;
  }

  // How often a connection is checked when nothing moves on it, and when it lacks a stream.
  static constexpr Duration kCheckEvery = std::chrono::milliseconds(100);
  static constexpr Duration kRepairEvery = std::chrono::milliseconds(1);

  struct Stream {
    Descriptor socket;
    std::unique_ptr<bootstrap::TlsStream> tls;  // null: plain
    bootstrap::StreamIo io() const noexcept { return {socket.get(), tls.get()}; }
    bool live = false;
    bool in = true, out = true;  // readiness, with several streams
    bool hang_up = false;        // keep reading until the end of the stream is seen
    unsigned small_reads = 0;
    bool peer_half_closed = false;  // the peer closed its end, and not all that it had sent is delivered yet
    std::string local_nic, peer_nic;
    std::shared_ptr<NicRateLimit> limit;

    std::uint32_t epoch = 0;
    /// Counts of the chunks received in earlier epochs. They are sent to the peer until it shows that it
    /// knows them.
    struct EpochSummary {
      std::uint32_t first_epoch, last_epoch, count;
    };
    std::vector<EpochSummary> epoch_summaries;
    // Pairs of NICs (indices into targets_): the stream's own, the present one, and the next to try.
    std::size_t home = 0, at = 0, next = 0;
    std::unique_ptr<bootstrap::Dial> dial;  // opens the stream again; null while no attempt is under way
    TimePoint dial_after{};                 // no attempt before this time
    TimePoint dial_since{};                 // when `dial` was begun
    TimePoint home_since{};                 // since when it has been over its own NICs
    unsigned home_breaks = 0;  // how often in a row the path of its own NICs soon fell silent again
    std::uint32_t next_epoch = 1;
    unsigned failures = 0;     // attempts in a row that failed
    std::string trouble;       // why it broke last
    bool ended = false;        // the peer's kernel ended it in order, without a goodbye
    bool suspect = false;      // the path answers nothing, so a replacement is opened beside it
    TimePoint silent_since{};  // its kernel has been waiting for an answer since then, or later
    StreamMeter* meter = nullptr;

    // connection_streams.cpp
    struct Look {
      std::uint64_t bytes = 0, busy_us = 0, held_us = 0, sent = 0, repeated = 0;
    } last_look;
    Congestion::Watch losses;
    std::unique_ptr<PacedStream> paced;
    std::uint64_t pace = 0;  // bytes per second; 0 = as fast as it will
  };

  void count(std::size_t index) noexcept;
  bool send_all() noexcept;
  bool receive_all() noexcept;
  bool take_acks(std::size_t index) noexcept;
  bool ack_due() const noexcept;
  bool all_was_said(std::size_t index) noexcept;
  void look_for_events() noexcept;
  void watch(const Descriptor& epoll, std::size_t index) const;
  void grow(std::size_t streams);
  std::size_t home_of(const std::shared_ptr<const bootstrap::Target>& target);

  // connection_idle.cpp
  Duration progress_in_background() noexcept override;
  /// Checks for timeouts, broken streams and arrivals; at most as often as the constants above say.
  void check_idle() noexcept;

  // connection_streams.cpp
  void look_at_streams(TimePoint now) noexcept;
  static void take_look(Stream& stream, Duration time, PathLook& look) noexcept;
  /// Connecting end: adds so many streams, which are opened in the background.
  void want_streams(std::size_t nic_pair, std::size_t more) noexcept;
  void pace(Stream& stream) noexcept;

  // connection_repair.cpp
  void lose(std::size_t index, int error_number) noexcept;
  void take_over(std::size_t index, Descriptor socket, std::unique_ptr<bootstrap::TlsStream> tls,
                 std::uint32_t epoch) noexcept;
  static void note_epochs(Stream& stream, std::uint32_t first, std::uint32_t last,
                          std::uint32_t count) noexcept;
  void take_epoch_summaries() noexcept;
  /// The epoch summaries of broken streams go out with the next send_all(), once for all that break together.
  void announce_soon() noexcept { announce_due_ = fresh_send_ = true; }
  void announce() noexcept;
  void repair(TimePoint now) noexcept;
  void take_arrivals() noexcept;
  void check_streams(TimePoint now) noexcept;
  void ping(TimePoint now) noexcept;
  void check_alone(TimePoint now) noexcept;

  // connection_dial.cpp
  void poll_dials(TimePoint now) noexcept;
  void dial(std::size_t index, TimePoint now);
  void ask(TimePoint now) noexcept;
  void attempt_failed(Stream& stream, TimePoint now, std::string why) noexcept;
  static Duration home_again(const Stream& stream) noexcept;
  static void drop_dial(Stream& stream) noexcept;
  void note_attempt(const bootstrap::Dial& dial, std::size_t target) noexcept;
  bool away(const Stream& stream) const noexcept { return connecting_ && stream.at != stream.home; }

  /// Whether going on depends on something that the peer has to tell.
  bool needs_acks() const noexcept { return sender_.waiting() || sender_.unresolved() || sender_.crowded(); }
  bool some_live() const noexcept { return live_ != 0; }
  /// Whether something must be done soon that no arriving bytes would trigger.
  bool busy_repairing() const noexcept { return (dialing_ || live_ == 0) && !goodbye_; }
  bool waits() const noexcept { return receiver_.pending() || sender_.waiting() || sender_.unwritten(); }

  // connection_end.cpp
  void note_end(std::size_t index) noexcept;
  void check_fault() noexcept;
  void check_timeouts(TimePoint now) noexcept;
  void fail_with(Cause cause, std::string_view what, GoodbyeReason reason, const FrameHeader& about) noexcept;
  std::string in_flight() noexcept;
  void say_goodbye(const FrameHeader& header) noexcept;
  void flush_out() noexcept;
  void leave() noexcept;
  std::vector<std::byte> last_words_on(std::size_t index) const;

  unsigned generation_ = fork_generation();
  std::shared_ptr<const TcpSettings> settings_;
  std::shared_ptr<bootstrap::Acceptor> acceptor_;
  std::shared_ptr<const bootstrap::Local> local_;  // the acceptor's
  std::shared_ptr<bootstrap::Inbox> inbox_;
  bool connecting_;
  bootstrap::Hello hello_;
  Route route_;
  std::string description_;
  Duration idle_timeout_;
  const Clock* clock_;

  std::vector<Stream> streams_;
  /// Connecting end: the targets of its streams. Accepting end: the one at which to ask for the peer, if
  /// there is one.
  std::vector<std::shared_ptr<const bootstrap::Target>> targets_;
  std::vector<PathControl> controls_;  // connecting end: by target
  TimePoint last_look_{};
  std::uint64_t refusing_ = 0;   // targets whose last attempt was refused, by bit
  std::size_t turned_away_ = 0;  // attempts in a row that the other side ended on purpose
  bool acks_in_pairs_ = false;   // whether the kernel is asked to acknowledge in pairs; on a short path only
  std::size_t live_ = 0;
  Descriptor epoll_;  // only with several streams
  Descriptor timer_;  // ends sleeps that no other descriptor ends
  Sender sender_;
  Receiver receiver_;
  RequestPool sends_{true}, receives_{false};
  std::optional<Error> error_;

  mutable std::atomic<bool> taken_{false};
  std::uint32_t calls_ = 0;       // calls that the owner has made
  std::uint32_t calls_seen_ = 0;  // as the background thread saw it last

  bool announce_due_ = false;
  bool fresh_send_ = false;  // there may be something to write: posted since the last time, or left over
  bool moved_ = true;        // something moved since `last_moved_` was taken
  bool goodbye_ = false;     // the peer said goodbye on some stream, so none is opened again
  unsigned skipped_reads_ = 0, passes_ = 0;
  TimePoint last_moved_{}, last_checked_{}, last_streams_{}, last_ping_{};
  Duration ping_after_{};
  std::optional<TimePoint> alone_since_;  // since when no stream has been live
  bool dialing_ = false;
  std::unique_ptr<bootstrap::Dial> asking_;
  TimePoint ask_after_{};
  std::string trouble_;    // why the stream that broke last did so
  std::string last_dial_;  // why it could not be opened again

  Metering meter_;
  StallWatch stalls_;
  RefreshTimer refresh_;
};

}  // namespace tombolo::transport::tcp
