#include "transport/tcp/connection.h"

#include <sys/epoll.h>
#include <sys/timerfd.h>

#include <algorithm>
#include <array>
#include <cerrno>

#include "base/units.h"
#include "transport/backend.h"
#include "transport/kernel.h"
#include "transport/polling.h"
#include "transport/sockets/socket.h"

namespace tombolo::transport::tcp {
namespace {

// One in so many small reads sets the kernel's acknowledgement mode again; see acknowledge_in_pairs().
constexpr std::size_t kSmallRead = 32 * 1024;
constexpr unsigned kSmallReadsPerHabit = 16;

SenderOptions sender_options(const TcpSettings& settings, std::size_t streams) {
  SenderOptions options;
  options.chunk = settings.chunk_of(streams);
  options.backlog = settings.backlog_of(streams);
  options.replay_bytes = std::min(options.replay_bytes, settings.options.replay_bytes);
  options.checksums = settings.options.checksums;
  return options;
}

/// Whether a stream that holds a chunk back, and is read no further, has ended behind that.
bool ends_unread(const Stream& stream) noexcept {
  if (stream.receive.ends_behind_a_chunk()) return true;
  if (!stream.live() || !stream.receive.held_back()) return false;
  pollfd end{stream.socket(), POLLRDHUP, 0};
  return kernel().poll(&end, 1, 0) > 0;  // an error or a hang-up is told unasked
}

}  // namespace

TcpConnection::TcpConnection(SetUpResult from)
    : settings_(std::move(from.settings)),
      acceptor_(std::move(from.acceptor)),
      inbox_(std::move(from.inbox)),
      connecting_(from.connecting),
      hello_(std::move(from.hello)),
      route_(std::move(from.route)),
      description_(describe(route_.transport, route_, from.peer_name)),
      texts_(description_),
      liveness_(local().idle_timeout),
      sender_(sender_options(*settings_, from.streams.size())),
      receiver_(local().overlong),
      meter_(local().meters, {route_, hello_.label, from.peer_name}) {
  std::optional<Error> trouble;
  const auto attempt = [&](const auto& step) {
    try {
      step();
    } catch (const Error& error) {
      if (!trouble) trouble = error;
    }
  };
  attempt([&] { grow(from.streams.size()); });
  resize(from.streams.size());
  for (std::size_t i = 0; i < streams_.size(); ++i) {
    Stream& stream = streams_[i];
    ConnectedStream& given = from.streams[i];
    stream.path = {std::move(given.local_nic), std::move(given.peer_nic), std::move(given.limit)};
    std::size_t home = 0;
    // The accepting end needs only one target at which to ask for the peer.
    if (given.target && (connecting_ || i == 0)) home = home_of(given.target);
    stream.meter = &meter_->add_stream(stream.path.local_nic, stream.path.peer_nic);
    // Nothing was received in the epochs that this end did not begin.
    if (given.epoch != 0) {
      stream.note_epochs(0, given.epoch - 1, 0);
      announce_soon();
    }
    stream.join(std::move(given.socket), std::move(given.tls), given.epoch);
    reconnector_.add(i, home, given.epoch + 1);
  }
  timer_ = Descriptor(kernel().timerfd_create(CLOCK_MONOTONIC, TFD_NONBLOCK | TFD_CLOEXEC));
  if (!timer_) attempt([] { fail_errno(errno, "timerfd_create"); });
  if (trouble && connecting_) throw *trouble;
  set_live(streams_.size());
  meter_->decided_streams.set(live_);
  const Duration round_trip = sockets::path_length(streams_[0].socket());
  for (std::size_t i = 0; i < streams_.size(); ++i) watch_or_lose(i);
  for (const auto& target : from.wanted) want_streams(home_of(target), 1);
  treatment_ = treatment_of(round_trip, from.bytes_per_second, settings_->options.replay_bytes);
  if (treatment_.copies != 0) sender_.copy_everything(treatment_.copies);
  if (trouble) fail_with(trouble->cause(), trouble->what(), GoodbyeReason::kFailed, {});
  acceptor_->background_progress().add(this);
}

TcpConnection::~TcpConnection() {
  // A forked child's copy has nothing to say, and a thread that is not there may hold the locks.
  if (acceptor_->is_copy()) return;
  acceptor_->background_progress().remove(this);
  for (Stream& stream : streams_)
    if (stream.live()) read_tcp_info(stream.socket(), *stream.meter);
  if (!failed()) guarded([&] { flush_out(); });
  acceptor_->close_connection(hello_.connection, side());
  if (!failed()) guarded([&] { leave(); });
  // The background thread writes what is left to write to the peer, and answers it.
  acceptor_->background_progress().wake();
}

Request* TcpConnection::post_send(std::span<const std::byte> data, Memory*) noexcept {
  const Turns::Turn turn(turns_);
  // An owner with no request left to test may call only this, repeatedly, so acknowledgements must be read
  // here too.
  if (!failed() && !sender_.can_post()) advance();
  if (!failed() && !sender_.can_post()) return nullptr;
  PostedRequest* request = requests_.send(data);
  if (request == nullptr) return nullptr;
  if (failed()) return request;  // it fails when it is tested
  // Nothing is written yet: what is posted until the next test goes out with one system call.
  if (!sender_.unwritten()) {
    liveness_.moved();  // the time without progress counts from here
    if (streams_.size() > 1 && data.size() < settings_->chunk_of(streams_.size())) next_stream_ = 0;
  }
  sender_.post(request);
  fresh_send_ = true;
  return request;
}

Request* TcpConnection::post_receive(std::span<std::byte> buffer, Memory*) noexcept {
  const Turns::Turn turn(turns_);
  if (!failed() && !receiver_.can_post()) return nullptr;
  PostedRequest* request = requests_.receive(buffer);
  if (request == nullptr || failed()) return request;
  if (!receiver_.pending()) liveness_.moved();
  guarded([&] {
    receiver_.post(request);
    if (receiver_.holds_back()) {
      liveness_.moved();
      for (Stream& stream : streams_) receiver_.go_on(stream);
      for (const Stream& stream : streams_)
        if (stream.live()) count(stream);
      check_fault();
      // What was read ahead may end with acknowledgements or epoch summaries, and nothing may follow that
      // would trigger another look at them.
      for (std::size_t i = 0; i < streams_.size() && !failed(); ++i)
        if (streams_[i].live() && take_acks(streams_[i]) && streams_[i].receive.damaged())
          lose(i, StreamLoss::of(Receiver::kDamaged));
      if (!failed() && !receiver_.epoch_summaries().empty()) take_epoch_summaries();
    }
  });
  return request;
}

Outcome TcpConnection::test(Request* base, std::size_t& bytes) noexcept {
  auto& request = *static_cast<PostedRequest*>(base);
  bool moved = true;
  std::optional<Turns::Turn> turn(turns_);
  auto done = [&] { return request.state == PostedRequest::State::kDone; };
  guarded([&] {
    if (!done() && !failed()) {
      moved = false;
      if (request.is_send) {
        moved = send_all();
        if (!done() && !failed()) {
          // Without posted receives only acknowledgements and the peer's end could come.
          if (receiver_.pending() || needs_acks() || !some_live() || cadence_.reads_unasked()) {
            cadence_.reads();
            moved |= receive_all();
          }
        }
      } else {
        if (fresh_send_ || sender_.unwritten()) moved = send_all();
        if (!failed()) moved |= receive_all();
        if (!moved)  // the acknowledgements that this finds due are sent below
          for (Stream& stream : streams_) stream.receive.idle();
      }
      if (!failed() && cadence_.reads_clock(moved, busy_repairing())) check_idle();
    }
    // A receive may have been completed when it was posted, and its sender may wait for the acknowledgement.
    if (!failed() && ack_due()) send_all();
  });
  const Outcome outcome = requests_.hand_back(request, failed(), bytes);
  turn.reset();  // a yield may last for a time slice
  Polling::of_thread().note(moved);
  return outcome;
}

bool TcpConnection::peer_ended() noexcept {
  const Turns::Turn turn(turns_, Turns::Of::kLook);
  if (failed()) return true;
  liveness_.asked();
  bool any = false;
  for (const Stream& stream : streams_) {
    const bool ended = ends_unread(stream);
    if (stream.live() && !ended) return false;
    any |= ended;
  }
  return any;
}

bool TcpConnection::progress() noexcept {
  const Turns::Turn turn(turns_);
  return advance();
}

bool TcpConnection::advance() noexcept {
  if (failed()) return false;
  bool moved = false;
  guarded([&] {
    moved = (fresh_send_ || sender_.unwritten()) && send_all();
    if (!failed()) moved |= receive_all();
    if (!failed() && cadence_.reads_clock(moved, busy_repairing())) check_idle();
  });
  return moved;
}

std::size_t TcpConnection::home_of(const std::shared_ptr<const bootstrap::Target>& target) {
  auto known = std::ranges::find(targets_, target);
  const auto index = static_cast<std::size_t>(known - targets_.begin());
  if (known == targets_.end()) targets_.push_back(target);
  return index;
}

void TcpConnection::look_for_events() noexcept {
  constexpr int kMost = 16;
  std::array<epoll_event, kMost> events;
  int count = kernel().epoll_wait(epoll_.get(), events.data(), kMost, 0);
  for (int i = 0; i < count; ++i) {
    Stream& stream = streams_[events[static_cast<std::size_t>(i)].data.u64];
    stream.ready.note(events[static_cast<std::size_t>(i)].events);
  }
}

bool TcpConnection::ack_due() const noexcept {
  return std::ranges::any_of(streams_, [&](const Stream& stream) {
    return stream.live() && !stream.is(StreamState::kHalfClosed) && receiver_.ack_due(stream);
  });
}

bool TcpConnection::send_all() {
  fresh_send_ = false;
  if (announce_due_) announce();
  bool several = streams_.size() > 1, moved = false;
  if (several &&
      std::ranges::any_of(streams_, [](const Stream& one) { return one.live() && !one.ready.out; }))
    look_for_events();
  const std::size_t first = next_stream_;
  for (std::size_t turn = 0; turn < streams_.size(); ++turn) {
    const std::size_t i = (first + turn) % streams_.size();
    Stream& stream = streams_[i];
    if (!stream.live()) continue;
    if (stream.is(StreamState::kHalfClosed)) {
      if (!nothing_else_comes(stream)) lose(i, StreamLoss::of(EPIPE));
      if (failed()) return moved;
      continue;
    }
    if (several && !stream.ready.out) {
      fresh_send_ |= sender_.has_work(stream) || receiver_.ack_due(stream);
      continue;
    }
    const bool due = receiver_.ack_due(stream);
    // The next chunk's header carries the acknowledgement, if there is one.
    bool told = due && sender_.takes_more(stream);
    if (due && !told) {
      FrameHeader header;
      header.type = FrameType::kAck;
      header.ack = stream.receive.count();
      told = stream.send.say(header);
    }
    if (told) stream.receive.told();
    if (!sender_.has_work(stream)) continue;
    std::size_t allowance = kMostPerCall;
    TimePoint now{};
    if (stream.path.limit) {
      now = clock().now();
      allowance = std::min(allowance, stream.path.limit->egress.allowance(now));
      if (allowance == 0) {
        fresh_send_ = true;
        continue;
      }
    }
    // Bytes that the kernel took are no progress yet: the kernel of a peer that reads nothing takes a few
    // more each time it is asked for room. What counts as progress is what the peer acknowledges, what it
    // sends, and messages that are done.
    const std::uint64_t done = sender_.messages();
    auto result = sender_.flush(stream, allowance);
    if (stream.path.limit && result.written != 0) stream.path.limit->egress.consume(result.written, now);
    if (result.written != 0) {
      next_stream_ = stream.send.mid_frame() ? i : (i + 1) % streams_.size();
      if (sender_.messages() != done) {
        moved = true;
        liveness_.moved();
      }
      stream.meter->sent_bytes.add(result.written);
      count(stream);
    }
    if (result.blocked) stream.ready.out = false;
    if (result.error != 0) {
      if (all_was_said(stream, result.error) && nothing_else_comes(stream)) {
        stream.apply(StreamEvent::kPeerClosed);
        continue;
      }
      // This reads what the peer sent before, which may include its goodbye.
      if (!failed()) lose(i, StreamLoss::of(result.error));
      if (failed()) return moved;
    }
    // What had no room, or no allowance, is written next time, and so are frames without payload.
    fresh_send_ |= stream.live() && sender_.has_work(stream);
  }
  return moved;
}

/// Of a stream that the peer closed after it had said all: whether this end may keep it, because only what
/// was said there is still to be delivered. A peer that said goodbye opens no stream again, so that what this
/// end still sends has no other way either; one that said none does, and sends again what it had said.
bool TcpConnection::nothing_else_comes(const Stream& stream) const noexcept {
  return stream.receive.said_goodbye() || (!sender_.waiting() && !sender_.unwritten());
}

/// Called after a write failed: whether everything that the peer sent before it closed has come, including
/// its goodbye. A peer that closed takes no acknowledgements any more, while what it sent may still wait for
/// receives. It could send no goodbye on a stream on which its kernel had taken only part of a frame. Without
/// one, EPIPE alone shows that its end had come: behind a reset the kernel tells of no end, and still a read
/// finds one. The peer of a stream that was reset may live, and wait for the count of what arrived.
bool TcpConnection::all_was_said(Stream& stream, int write_error) {
  const bool ended = write_error == EPIPE || stream.receive.ends_behind_a_chunk();
  if (!read_rest(stream)) return false;
  const bool all = receiver_.rest_reaches_the_end(stream);
  return take_acks(stream) && all && (ended || stream.receive.said_goodbye());
}

/// Reads what has come on a stream that breaks. False where that makes the connection fail.
bool TcpConnection::read_rest(Stream& stream) {
  stream.meter->received_bytes.add(receiver_.read_rest(stream));
  check_fault();
  return !failed();
}

bool TcpConnection::receive_all() {
  bool several = streams_.size() > 1, moved = false;
  if (several) look_for_events();
  for (std::size_t i = 0; i < streams_.size(); ++i) {
    Stream& stream = streams_[i];
    if (!stream.live() || (several && !stream.ready.in)) continue;
    const bool ahead = needs_acks() && stream.receive.may_read_ahead();
    if (!ahead && !stream.receive.wants_data()) continue;
    std::size_t allowance = kMostPerCall;
    TimePoint now{};
    if (stream.path.limit) {
      now = clock().now();
      allowance = std::min(allowance, stream.path.limit->ingress.allowance(now));
      if (allowance == 0) continue;
    }
    auto result = ahead ? receiver_.read_ahead(stream, allowance) : receiver_.read(stream, allowance);
    if (stream.path.limit && result.read != 0) stream.path.limit->ingress.consume(result.read, now);
    if (result.read != 0) {
      stream.unconfirmed = false;
      if (result.read != result.idle) {
        moved = true;
        liveness_.moved();
      }
      stream.meter->received_bytes.add(result.read);
      if (result.read <= kSmallRead && treatment_.acks_in_pairs &&
          stream.small_reads++ % kSmallReadsPerHabit == 0)
        sockets::acknowledge_in_pairs(stream.socket());
    }
    if (result.drained && !stream.ready.hang_up) stream.ready.in = false;
    if (receiver_.fault() != Receiver::Fault::kNone) {
      check_fault();
      return moved;
    }
    if (!take_acks(stream)) return moved;
    if (result.read != 0) count(stream);
    if (!receiver_.epoch_summaries().empty()) take_epoch_summaries();
    if (failed() || !stream.live()) continue;
    if (result.error != 0) {
      lose(i, StreamLoss::of(result.error));
    } else if (result.ended) {
      lose(i, {StreamLoss::Why::kEnded});
    }
    if (failed()) return moved;
  }
  if (fresh_send_ || ack_due()) send_all();
  return moved;
}

void TcpConnection::set_live(std::size_t streams) noexcept {
  live_ = streams;
  meter_->live_streams.set(live_);
  receiver_.share_among(live_);
}

/// Updates the stream's meter after something moved on it.
void TcpConnection::count(const Stream& stream) noexcept {
  stalls_.moved(*meter_, clock());
  meter_->sent_bytes.set(sender_.bytes());
  meter_->received_bytes.set(receiver_.bytes());
  meter_->sent_messages.set(sender_.messages());
  meter_->received_messages.set(receiver_.messages());
  StreamMeter& meter = *stream.meter;
  meter.sent_chunks.set(stream.send.chunks());
  meter.received_chunks.set(stream.receive.chunks());
  meter.replayed.set(stream.send.replayed());
}

}  // namespace tombolo::transport::tcp
