// How a connection goes on when streams break: what was under way is sent over the others, or over the stream
// that was opened again, exactly once (wire.h says how).
#include <sys/socket.h>

#include <algorithm>
#include <cerrno>

#include "base/units.h"
#include "transport/bootstrap/socket.h"
#include "transport/kernel.h"
#include "transport/tcp/accepting.h"
#include "transport/tcp/connection.h"

namespace tombolo::transport::tcp {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;

// When the peer's kernel has left packets unanswered for this long (or for four round trips), the path is
// taken for dead. A kernel sends a packet again after 200 ms at the earliest.
constexpr Duration kSilent = milliseconds(400);
// A kernel sends a packet again after this at the earliest; before that, silence cannot be told from waiting.
constexpr Duration kFirstRepeat = milliseconds(200);
// A connection that waits for its peer tests the path after this time, then after twice as long, and so on.
constexpr Duration kFirstPing = milliseconds(300);
// A path that falls silent within this time after its streams returned to it is avoided for longer each time.
constexpr Duration kStaysHome = seconds(10);
// When the peer's kernel has ended all streams in order and without a goodbye, its process has died, or
// something between the two has cut them all. The peer gets the first of these times to show that it lives,
// or the second where this end cannot ask it.
constexpr Duration kEndedGrace = seconds(5);
constexpr Duration kEndedGraceUnasked = milliseconds(500);
// After this many attempts in a row that were accepted and then closed we assume a proxy without a backend.
constexpr std::size_t kTurnedAway = 10;

}  // namespace

void TcpConnection::lose(std::size_t index, int error_number) noexcept {
  Stream& stream = streams_[index];
  if (!stream.live) return;
  // What the peer sent before is still in the kernel, and is read first.
  while (error_number != Receiver::kDamaged && error_number != bootstrap::TlsStream::kAltered) {
    auto result = receiver_.read(index, SIZE_MAX);
    stream.meter->received_bytes.add(result.read);
    if (receiver_.fault() != Receiver::Fault::kNone) return check_fault();
    if (result.read == 0) break;
  }
  if (!take_acks(index)) return;
  goodbye_ |= receiver_.said_goodbye(index);
  note_epochs(stream, stream.epoch, stream.epoch, receiver_.lose(index));
  sender_.lose(index);
  stream.live = false;
  stream.suspect = false;
  --live_;
  stream.dial_after = TimePoint{};
  stream.failures = 0;
  // A path that is known to work is tried before one that fell silent, and before one on which the peer
  // closed the stream, because the peer may have noticed the silence first.
  std::size_t next = stream.at;
  if (error_number == ETIMEDOUT || error_number == 0) {
    for (const Stream& one : streams_) {
      if (!one.live || one.suspect || one.at == stream.at) continue;
      next = one.at;
      break;
    }
    if (!away(stream)) {
      const bool soon = clock_->now() - stream.home_since < kStaysHome;
      stream.home_breaks = soon ? stream.home_breaks + 1 : 0;
    }
  }
  if (stream.dial && stream.next != next) drop_dial(stream);
  stream.next = next;
  stream.paced.reset();
  stream.pace = 0;
  stream.losses = {};
  stream.last_look = {};
  read_tcp_info(stream.socket.get(), *stream.meter);
  count(index);
  stream.meter->broke();
  meter_->live_streams.set(live_);
  if (!stream.ended) {
    // The socket is reset, because a FIN would tell the peer that this process has gone.
    const ::linger hard{1, 0};
    kernel().setsockopt(stream.socket.get(), SOL_SOCKET, SO_LINGER, &hard, sizeof hard);
  }
  stream.socket.reset();
  if (!goodbye_) {
    stream.trouble = trouble_ = stream.ended        ? "the peer's end was closed without a goodbye"
                                : error_number == 0 ? "the peer gave it up"
                                : error_number == Receiver::kDamaged ? "a checksum did not match"
                                : error_number == bootstrap::TlsStream::kAltered && stream.tls
                                    ? stream.tls->trouble() + ": it was altered on its way"
                                    : errno_text(error_number);
    // The loss of the last stream either ends the connection or is repaired, and either of these is logged
    // later.
    if (live_ != 0) {
      local_->log.info("{}: stream {} of {} ({} -> {}) broke: {}", description_, index, streams_.size(),
                       stream.local_nic, stream.peer_nic, trouble_);
    }
  }
  stream.tls.reset();
  moved_ = true;
  dialing_ = connecting_;
  // Where the peer has said goodbye, what it sent before may lie on a stream that it opened again, and that
  // waits to be taken over.
  if (live_ == 0 && goodbye_) take_arrivals();
  if (error_) return;
  if (live_ == 0) {
    if (goodbye_) {
      fail_with(Cause::kRemote, bootstrap::peer_closed(GoodbyeReason::kClosed), GoodbyeReason::kClosed, {});
      return;
    }
    alone_since_ = clock_->now();
    // Attempts that failed while other streams worked say nothing about the peer's state now.
    refusing_ = 0;
    turned_away_ = 0;
  }
  if (!receiver_.epoch_summaries().empty()) take_epoch_summaries();
  announce_soon();
}

void TcpConnection::note_epochs(Stream& stream, std::uint32_t first, std::uint32_t last,
                                std::uint32_t count) noexcept {
  // A chunk in this epoch shows that the peer knows the counts of all epochs before.
  if (count != 0) stream.epoch_summaries.clear();
  // Consecutive epochs without chunks share one summary, so that their number stays bounded however often the
  // stream breaks.
  if (count == 0 && !stream.epoch_summaries.empty() && stream.epoch_summaries.back().count == 0) {
    stream.epoch_summaries.back().last_epoch = last;
  } else {
    stream.epoch_summaries.push_back({first, last, count});
  }
}

void TcpConnection::take_over(std::size_t index, Descriptor socket, std::unique_ptr<bootstrap::TlsStream> tls,
                              std::uint32_t epoch) noexcept {
  Stream& stream = streams_[index];
  // The peer may have begun epochs that this end did not; nothing was received in them.
  if (epoch - stream.epoch > 1) note_epochs(stream, stream.epoch + 1, epoch - 1, 0);
  stream.epoch = epoch;
  stream.socket = std::move(socket);
  stream.tls = std::move(tls);
  stream.live = stream.in = stream.out = true;
  stream.hang_up = stream.peer_half_closed = stream.ended = stream.suspect = false;
  stream.silent_since = clock_->now();
  if (!away(stream)) stream.home_since = stream.silent_since;
  stream.dial.reset();
  ++live_;
  if (stream.meter->breaks.get() != 0) {
    stream.meter->rejoined();
  } else {
    stream.meter->down.set(0);
  }
  meter_->live_streams.set(live_);
  alone_since_.reset();
  asking_.reset();
  moved_ = true;
  receiver_.join(index, stream.io(), epoch);
  sender_.join(index, stream.io(), epoch);
  try {
    watch(epoll_, index);
  } catch (const Error& error) {
    local_->log.warning("{}: {}", description_, error.what());
    return lose(index, ENOMEM);
  }
  stream.failures = 0;
  if (stream.meter->breaks.get() != 0) {
    local_->log.warning("{}: stream {} broke ({}) and is back, {} -> {}", description_, index, stream.trouble,
                        stream.local_nic, stream.peer_nic);
  } else {
    local_->log.info("{}: stream {} is there, {} -> {}", description_, index, stream.local_nic,
                     stream.peer_nic);
  }
  announce_soon();
}

bool TcpConnection::take_acks(std::size_t index) noexcept {
  if (sender_.acknowledge(index, receiver_.peer_ack(index))) return true;
  fail_with(Cause::kRemote, "the peer acknowledged more than was sent", GoodbyeReason::kMalformed, {});
  return false;
}

void TcpConnection::take_epoch_summaries() noexcept {
  const std::vector<Receiver::EpochSummary> epoch_summaries = receiver_.epoch_summaries();
  receiver_.epoch_summaries().clear();
  for (const Receiver::EpochSummary& said : epoch_summaries) {
    if (error_) return;
    // This end has not accepted that stream yet, so nothing was sent on it.
    if (said.stream >= streams_.size()) continue;
    const Stream& stream = streams_[said.stream];
    if (stream.live && stream.epoch >= said.first_epoch && stream.epoch <= said.last_epoch)
      lose(said.stream, 0);
    if (error_) return;
    if (!sender_.resolve_epoch(said.stream, said.first_epoch, said.last_epoch, said.count)) {
      fail_with(Cause::kRemote,
                fmt::format("the peer says that stream {} brought {} chunks, more than were sent",
                            said.stream, said.count),
                GoodbyeReason::kMalformed, {});
      return;
    }
    fresh_send_ = true;
  }
}

void TcpConnection::announce() noexcept {
  announce_due_ = false;
  for (std::size_t i = 0; i < streams_.size(); ++i) {
    Stream& stream = streams_[i];
    // A chunk in this epoch shows that the peer knows the counts of all epochs before.
    if (stream.live && receiver_.count(i) != 0) stream.epoch_summaries.clear();
    for (const Stream::EpochSummary& last : stream.epoch_summaries) {
      FrameHeader header;
      header.type = FrameType::kEpochSummary;
      header.offset = i;
      header.total = std::uint64_t{last.first_epoch} << 32 | last.last_epoch;
      header.sequence = last.count;
      bool said = false;
      for (std::size_t j = 0; j < streams_.size(); ++j) {
        if (!streams_[j].live) continue;
        header.ack = receiver_.count(j);
        said |= sender_.say(j, header);
      }
      // Where no stream has room, this is tried again later; without any stream, once there is one.
      announce_due_ |= !said && live_ != 0;
    }
  }
}

void TcpConnection::repair(TimePoint now) noexcept {
  acceptor_->progress();
  take_arrivals();
  if (error_ || goodbye_) return;
  check_streams(now);
  if (error_) return;
  poll_dials(now);
  if (!error_ && alone_since_) check_alone(now);
  if (!error_) ping(now);
}

void TcpConnection::take_arrivals() noexcept {
  while (!inbox_->empty() && !error_) {
    auto arrival = inbox_->take();
    if (!arrival) return;
    const std::size_t index = arrival->hello.stream;
    const std::uint32_t epoch = arrival->hello.epoch;
    // The peer has already replaced this stream by a later one.
    const std::uint32_t last = index < streams_.size() ? streams_[index].epoch : 0;
    if (index < streams_.size() && epoch <= last) continue;
    if (epoch - last > kMostEpochsAhead) {
      local_->log.warning("{}: dropped a stream {} from {}: its epoch {} is more than {} above the last, {}",
                          description_, index, arrival->peer, epoch, kMostEpochsAhead, last);
      continue;
    }
    try {
      grow(index + 1);
    } catch (const Error& error) {
      local_->log.warning("{}: no further stream: {}", description_, error.what());
      continue;
    }
    lose(index, 0);
    if (error_) return;
    auto made = connected_stream(*settings_, *acceptor_, std::move(*arrival));
    Stream& stream = streams_[index];
    stream.local_nic = std::move(made.local_nic);
    stream.peer_nic = std::move(made.peer_nic);
    stream.limit = std::move(made.limit);
    for (Stream& each : streams_)
      if (each.meter == nullptr) each.meter = &meter_->add_stream(stream.local_nic, stream.peer_nic);
    meter_->decided_streams.set(streams_.size());
    if (made.target) targets_ = {std::move(made.target)};
    take_over(index, std::move(made.socket), std::move(made.tls), epoch);
  }
}

void TcpConnection::check_streams(TimePoint now) noexcept {
  if (now - last_streams_ < kCheckEvery) return;
  last_streams_ = now;
  std::size_t silent = 0;
  for (Stream& stream : streams_) {
    if (!stream.live) continue;
    // The kernel counts from the last answer, which on an idle stream was long ago; one packet that was lost
    // after that does not make the path silent.
    const Duration unanswered = bootstrap::unanswered_for(stream.socket.get());
    if (unanswered == Duration::zero()) stream.silent_since = now;
    const Duration patience = std::max(kSilent, 4 * bootstrap::round_trip_time(stream.socket.get()));
    const bool before = stream.suspect;
    stream.suspect = std::min(unanswered, now - stream.silent_since + kFirstRepeat) >= patience;
    if (stream.suspect) ++silent;
    if (stream.suspect && !before) {
      stream.dial_after = TimePoint{};
      stream.failures = 0;
    }
    if (!stream.suspect && !away(stream)) drop_dial(stream);
  }
  // Where all streams are silent each may still recover, so that new ones are tried beside them.
  if (silent == 0 || silent == live_) return;
  for (std::size_t i = 0; i < streams_.size() && !error_; ++i)
    if (streams_[i].live && streams_[i].suspect) lose(i, ETIMEDOUT);
}

void TcpConnection::check_alone(TimePoint now) noexcept {
  const bool ended = std::ranges::all_of(streams_, [](const Stream& stream) { return stream.ended; });
  const Duration alone = now - *alone_since_;
  const Duration patience =
      !ended ? idle_timeout_ : std::min(idle_timeout_, !targets_.empty() ? kEndedGrace : kEndedGraceUnasked);
  // A proxy in front of the peer may accept every attempt and close it, although the peer is gone.
  const bool nobody = turned_away_ >= kTurnedAway && alone >= std::min(idle_timeout_, kEndedGrace);
  if (alone < patience && !nobody) return;
  const std::string tried = last_dial_.empty() ? "" : fmt::format("; last attempt: {}", last_dial_);
  if (ended || nobody) {
    fail_with(Cause::kRemote, fmt::format("the peer vanished: {} (did its process die?){}", trouble_, tried),
              GoodbyeReason::kFailed, {});
  } else {
    fail_with(Cause::kTimeout,
              fmt::format("its last stream broke ({}) and none came back within {}{}, {}", trouble_,
                          format_seconds(to_seconds(patience)), tried, in_flight()),
              GoodbyeReason::kTimeout, {});
  }
}

void TcpConnection::ping(TimePoint now) noexcept {
  // A sender's own bytes test the path. An end that only waits sends a ping, so that its kernel notices a
  // dead path.
  if (!receiver_.pending() || sender_.unwritten() || live_ == 0) return;
  const Duration after = std::max(ping_after_, kFirstPing);
  if (now - std::max(last_moved_, last_ping_) < after) return;
  last_ping_ = now;
  ping_after_ = std::min(2 * after, std::max<Duration>(idle_timeout_ / 4, kFirstPing));
  for (std::size_t i = 0; i < streams_.size(); ++i) {
    FrameHeader header;
    header.type = FrameType::kPing;
    header.ack = receiver_.count(i);
    if (streams_[i].live) sender_.say(i, header);
  }
  fresh_send_ = true;
}

}  // namespace tombolo::transport::tcp
