// A connection over one or more TCP streams. It outlives any of them: what a broken stream did not deliver
// goes over the others, and the connecting end opens the stream again in the background
// (connection_repair.cpp). It composes what decides (Liveness, Reconnector, PathTuner, Shutdown), what
// the streams have (Stream) and what they share (Sender, Receiver), and makes the system calls.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/clock.h"
#include "base/log.h"
#include "transport/bootstrap/acceptor.h"
#include "transport/bootstrap/dial.h"
#include "transport/bootstrap/local.h"
#include "transport/descriptor.h"
#include "transport/failing.h"
#include "transport/observe/meters.h"
#include "transport/request_pool.h"
#include "transport/resumable.h"
#include "transport/tcp/call_cadence.h"
#include "transport/tcp/lifecycle/liveness.h"
#include "transport/tcp/lifecycle/peer_question.h"
#include "transport/tcp/lifecycle/reconnector.h"
#include "transport/tcp/lifecycle/shutdown.h"
#include "transport/tcp/path/path_tuner.h"
#include "transport/tcp/path/rate_limit.h"
#include "transport/tcp/settings.h"
#include "transport/tcp/stream/receiver.h"
#include "transport/tcp/stream/sender.h"
#include "transport/tcp/stream/stream.h"
#include "transport/tcp/turns.h"
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
  std::unique_ptr<sockets::TlsStream> tls = {};  ///< null: plain
  std::uint32_t epoch = 0;                       ///< above 0 where the peer had to join again
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

class TcpConnection final : public HostMemoryConnection, public Resumable, private bootstrap::Progressable {
 public:
  /// The most bytes that one pass reads from, or writes to, a stream: about half a millisecond's work on
  /// loopback, after which the other direction and other connections proceed. A call makes one pass to read,
  /// and up to three to write, since what it reads and what is due by time may each let it write more.
  static constexpr std::size_t kMostPerCall = std::size_t{2} << 20;
  /// How many streams that the peer has opened one call takes over: one of each, for an honest peer.
  static constexpr unsigned kMostArrivals = kMostStreams;

  /// Where the system refuses what it needs, the connecting end throws, and the accepting end makes a
  /// connection that has failed: its peer has the reply and counts on it.
  explicit TcpConnection(SetUpResult from);
  /// Says goodbye. Waits for a bounded time until the peer's kernel has everything that was reported as sent.
  ~TcpConnection() override;

  Request* post_send(std::span<const std::byte> data, Memory* memory) noexcept override;
  Request* post_receive(std::span<std::byte> buffer, Memory* memory) noexcept override;
  Outcome test(Request* request, std::size_t& bytes) noexcept override;
  bool progress() noexcept override;
  void append_wait_handles(std::vector<pollfd>& handles) const override;
  const Error* error() const noexcept override {
    const Turns::Turn turn(turns_, Turns::Of::kLook);
    return shutdown_.error();
  }
  std::uint64_t label() const noexcept override { return hello_.label; }
  const Route& route() const noexcept override { return route_; }
  bool peer_ended() noexcept override;
  Statistics statistics() const noexcept override { return meter_->statistics(); }
  /// It mends failures of its path itself. Its messages go on over another way only where the two ends leave
  /// it for a better one.
  Resumable* resumable() noexcept override { return this; }
  bool path_failed() const noexcept override {
    const Turns::Turn turn(turns_, Turns::Of::kLook);
    return shutdown_.left_for_another();
  }
  std::vector<PairOfNics> nic_pairs() const override { return {}; }
  void peer_says_failed(std::uint64_t /*pairs*/) noexcept override {}
  std::optional<Error> fence(const Take& early, const Take& unsure) noexcept override;

 private:
  bool advance() noexcept;
  /// Runs the work of one call. What it throws fails this connection.
  template <typename Work>
  void guarded(const Work& work) noexcept {
    transport::guarded(work, [this](Cause cause, std::string_view what) noexcept {
      fail_with(cause, what, GoodbyeReason::kFailed, {});
    });
  }
  const bootstrap::Local& local() const noexcept { return *acceptor_->local(); }
  const Clock& clock() const noexcept { return *local().clock; }
  bootstrap::Side side() const noexcept {
    return connecting_ ? bootstrap::Side::kConnecting : bootstrap::Side::kAccepting;
  }

  // How often a connection is checked when nothing moves on it, and when it lacks a stream.
  static constexpr Duration kCheckEvery = std::chrono::milliseconds(100);
  static constexpr Duration kRepairEvery = std::chrono::milliseconds(1);

  void count(const Stream& stream) noexcept;
  bool send_all();
  bool receive_all();
  bool take_acks(Stream& stream);
  bool ack_due() const noexcept;
  bool nothing_else_comes(const Stream& stream) const noexcept;
  bool read_rest(Stream& stream);
  bool all_was_said(Stream& stream, int write_error);
  void look_for_events() noexcept;
  std::size_t home_of(const std::shared_ptr<const bootstrap::Target>& target);

  // connection_idle.cpp
  Duration progress_in_background() noexcept override;
  /// Checks for timeouts, broken streams and arrivals; at most as often as the constants above say.
  void check_idle();
  bool something_arrives(TimePoint now);

  // connection_streams.cpp
  void watch(const Descriptor& epoll, std::size_t index) const;
  void watch_or_lose(std::size_t index);
  void grow(std::size_t streams);
  void resize(std::size_t streams);
  void look_at_streams(TimePoint now);
  /// Connecting end: adds so many streams, which are opened in the background.
  void want_streams(std::size_t nic_pair, std::size_t more);
  void pace(std::size_t index);

  // connection_repair.cpp
  void lose(std::size_t index, const StreamLoss& loss);
  void take_over(std::size_t index, Descriptor socket, std::unique_ptr<sockets::TlsStream> tls,
                 std::uint32_t epoch, std::size_t at);
  void take_epoch_summaries();
  /// The epoch summaries of broken streams go out with the next send_all(), once for all that break together.
  void announce_soon() noexcept { announce_due_ = fresh_send_ = true; }
  void announce();
  void repair(TimePoint now);
  void take_arrivals();
  void check_streams(TimePoint now);
  void lose_ended_streams(TimePoint now);
  void ping(TimePoint now);
  void check_alone(TimePoint now);

  // connection_dial.cpp
  void poll_dials(TimePoint now);
  void dial(std::size_t index, TimePoint now);
  void ask(TimePoint now);
  bool answer_due() const noexcept;
  bool may_be_dropped(const Stream& stream) const noexcept;
  void await_answers(TimePoint now);
  void attempt_failed(std::size_t index, TimePoint now, std::string why);
  void drop_dial(std::size_t index) noexcept;
  void note_attempt(const bootstrap::Dial& dial, std::size_t target) noexcept;

  /// Whether going on depends on something that the peer has to tell.
  bool needs_acks() const noexcept {
    return sender_.waiting() || sender_.unresolved() || sender_.sends_again() || sender_.crowded();
  }
  bool failed() const noexcept { return shutdown_.failed(); }
  bool some_live() const noexcept { return live_ != 0; }
  void set_live(std::size_t streams) noexcept;
  /// Whether something must be done soon that no arriving bytes would trigger.
  bool busy_repairing() const noexcept { return dialing_ || (live_ == 0 && shutdown_.open()); }
  TimePoint next_check() const noexcept {
    return liveness_.next_check(busy_repairing() ? kRepairEvery : kCheckEvery);
  }
  bool waits() const noexcept { return receiver_.pending() || sends(); }
  /// Whether something that was posted has not reached the peer, as far as this end knows.
  bool sends() const noexcept { return sender_.waiting() || sender_.unwritten() || sender_.unresolved(); }
  /// Whether a message that was reported as sent has to be sent again, or may have to be, or whether the peer
  /// may still need to be told what has come.
  bool owes() const noexcept;

  // connection_end.cpp
  void check_fault();
  void check_timeouts(TimePoint now);
  void fail_with(Cause cause, std::string_view what, GoodbyeReason reason, const FrameHeader& about) noexcept;
  void fail_closed();
  std::string in_flight();
  void say_goodbye(const FrameHeader& header) noexcept;
  void flush_out();
  void leave();

  std::shared_ptr<const TcpSettings> settings_;
  std::shared_ptr<bootstrap::Acceptor> acceptor_;
  std::shared_ptr<bootstrap::Inbox> inbox_;
  bool connecting_;
  bootstrap::Hello hello_;
  Route route_;
  std::string description_;
  FailureTexts texts_;
  Liveness liveness_;

  std::vector<Stream> streams_;
  /// Connecting end: the targets of its streams. Accepting end: the one at which to ask for the peer, if
  /// there is one.
  std::vector<std::shared_ptr<const bootstrap::Target>> targets_;
  PathTuner tuner_;
  Reconnector reconnector_;
  Refusals refusals_;
  PathTreatment treatment_;
  std::size_t live_ = 0;
  Descriptor epoll_;  // only with several streams
  Descriptor timer_;  // ends sleeps that no other descriptor ends
  Sender sender_;
  Receiver receiver_;
  Requests requests_;
  Shutdown shutdown_;

  mutable Turns turns_;

  bool announce_due_ = false;
  // The stream that is asked first for chunks: the one behind that which took some last. If it were always
  // the same, a burst would fill the buffers of the first streams to the brim, whose kernel then tells of
  // room only when a third is free, and messages would wait for their chunks there while other streams have
  // nothing to send. A stream that has begun a frame comes first, so that the frame is whole soon where a
  // NIC's limit lets little through at a time. A message of less than a chunk that finds nothing else to
  // write takes the first stream, over whose NICs the connection was made.
  std::size_t next_stream_ = 0;
  bool fresh_send_ = false;  // there may be something to write: posted since the last time, or left over
  bool dialing_ = false;
  CallCadence cadence_;
  PeerQuestion question_;
  std::string trouble_;  // why the stream that broke last did so

  Metering meter_;
  StallWatch stalls_;
  RefreshTimer refresh_;
};

}  // namespace tombolo::transport::tcp
