// How a connection goes on when streams break: what was under way is sent over the others, or over the stream
// that was opened again, exactly once (wire.h says how).
#include <sys/socket.h>

#include <algorithm>
#include <cerrno>

#include "base/units.h"
#include "transport/kernel.h"
#include "transport/sockets/socket.h"
#include "transport/tcp/accepting.h"
#include "transport/tcp/connection.h"

namespace tombolo::transport::tcp {

void TcpConnection::lose(std::size_t index, const StreamLoss& loss) {
  Stream& stream = streams_[index];
  if (!stream.live()) return;
  // No other stream could read or write that buffer either.
  if (loss.why == StreamLoss::Why::kError && loss.error_number == EFAULT)
    return fail_with(Cause::kInvalidUsage,
                     fmt::format("{}: a posted buffer is not memory of this process that the kernel can use "
                                 "(EFAULT). A buffer must stay allocated until its request is done, and GPU "
                                 "memory be posted with its registration",
                                 in_flight()),
                     GoodbyeReason::kFailed, {});
  // What the peer sent before is still in the kernel, and is read first.
  if (loss.leaves_rest() && !read_rest(stream)) return;
  if (!take_acks(stream)) return;
  if (stream.receive.said_goodbye()) shutdown_.peer_said_goodbye();
  stream.note_epochs(stream.epoch(), stream.epoch(), stream.receive.count());
  receiver_.lose(stream);
  sender_.lose(stream);
  read_tcp_info(stream.socket(), *stream.meter);
  std::string why = stream.lose(loss);
  set_live(live_ - 1);
  // A path that is known to work is tried before one that fell silent, and before one on which the peer
  // closed the stream, because the peer may have noticed the silence first.
  std::optional<std::size_t> other;
  for (std::size_t i = 0; i < streams_.size() && !other; ++i) {
    const bool works = streams_[i].live() && !streams_[i].is(StreamState::kSuspect);
    if (works && reconnector_.at(i) != reconnector_.at(index)) other = reconnector_.at(i);
  }
  if (reconnector_.lost(index, loss.doubts_path(), other, clock().now())) drop_dial(index);
  tuner_.lost(index);
  count(stream);
  stream.meter->broke();
  if (shutdown_.open()) {
    stream.trouble = trouble_ = std::move(why);
    // The loss of the last stream either ends the connection or is repaired, and either of these is logged
    // later.
    if (live_ != 0) {
      local().log.info("{}: stream {} of {} ({} -> {}) broke: {}", description_, index, streams_.size(),
                       stream.path.local_nic, stream.path.peer_nic, trouble_);
    }
  }
  liveness_.moved();
  dialing_ = connecting_;
  // Where the peer has said goodbye, what it sent before may lie on a stream that it opened again, and that
  // waits to be taken over.
  if (live_ == 0 && shutdown_.peer_left()) take_arrivals();
  if (failed()) return;
  if (live_ == 0) {
    if (shutdown_.complete(live_, answer_due())) return fail_closed();
    liveness_.alone(clock().now());
    // Attempts that failed while other streams worked say nothing about the peer's state now.
    refusals_.forget();
  }
  if (!receiver_.epoch_summaries().empty()) take_epoch_summaries();
  announce_soon();
}

void TcpConnection::take_over(std::size_t index, Descriptor socket, std::unique_ptr<sockets::TlsStream> tls,
                              std::uint32_t epoch, std::size_t at) {
  Stream& stream = streams_[index];
  stream.join(std::move(socket), std::move(tls), epoch);
  const TimePoint now = clock().now();
  liveness_.joined(index, now);
  reconnector_.joined(index, at, epoch, now);
  stream.dial.reset();
  // The accepting end cannot know that the other has the stream before something comes on it.
  stream.unconfirmed = !connecting_;
  FrameHeader confirmation;
  confirmation.type = FrameType::kAck;
  if (connecting_) stream.send.say(confirmation);
  set_live(live_ + 1);
  if (stream.meter->breaks.get() != 0) {
    stream.meter->rejoined();
  } else {
    stream.meter->down.set(0);
  }
  liveness_.not_alone();
  question_.drop();
  liveness_.moved();
  watch_or_lose(index);
  if (!stream.live()) return;
  if (stream.meter->breaks.get() != 0) {
    local().log.warning("{}: stream {} broke ({}) and is back, {} -> {}", description_, index, stream.trouble,
                        stream.path.local_nic, stream.path.peer_nic);
  } else {
    local().log.info("{}: stream {} is there, {} -> {}", description_, index, stream.path.local_nic,
                     stream.path.peer_nic);
  }
  announce_soon();
}

bool TcpConnection::take_acks(Stream& stream) {
  if (sender_.acknowledge(stream, stream.receive.peer_ack())) return true;
  fail_with(Cause::kRemote, "the peer acknowledged more than was sent", GoodbyeReason::kMalformed, {});
  return false;
}

void TcpConnection::take_epoch_summaries() {
  const std::vector<Receiver::EpochSummary> epoch_summaries = receiver_.epoch_summaries();
  receiver_.epoch_summaries().clear();
  for (const Receiver::EpochSummary& said : epoch_summaries) {
    if (failed()) return;
    // This end has not accepted that stream yet, so nothing was sent on it.
    if (said.stream >= streams_.size()) continue;
    Stream& stream = streams_[said.stream];
    if (stream.live() && stream.epoch() >= said.first_epoch && stream.epoch() <= said.last_epoch)
      lose(said.stream, {StreamLoss::Why::kGivenUp});
    if (failed()) return;
    if (!sender_.resolve_epoch(stream, said.first_epoch, said.last_epoch, said.count)) {
      fail_with(Cause::kRemote,
                fmt::format("the peer says that stream {} brought {} chunks, more than were sent",
                            said.stream, said.count),
                GoodbyeReason::kMalformed, {});
      return;
    }
    fresh_send_ = true;
  }
}

void TcpConnection::announce() {
  announce_due_ = false;
  for (std::size_t i = 0; i < streams_.size(); ++i) {
    Stream& stream = streams_[i];
    // A chunk in this epoch shows that the peer knows the counts of all epochs before.
    if (stream.live() && stream.receive.count() != 0) stream.forget_epochs();
    for (const Stream::EpochSummary& last : stream.epoch_summaries()) {
      FrameHeader header;
      header.type = FrameType::kEpochSummary;
      header.offset = i;
      header.total = std::uint64_t{last.first_epoch} << 32 | last.last_epoch;
      header.sequence = last.count;
      bool said = false;
      for (Stream& other : streams_) {
        if (!other.live()) continue;
        header.ack = other.receive.count();
        said |= other.send.say(header);
      }
      // Where no stream has room, this is tried again later; without any stream, once there is one.
      announce_due_ |= !said && live_ != 0;
    }
  }
}

void TcpConnection::repair(TimePoint now) {
  acceptor_->progress();
  take_arrivals();
  if (!failed()) lose_ended_streams(now);
  if (failed()) return;
  if (shutdown_.peer_left()) return await_answers(now);
  check_streams(now);
  if (failed()) return;
  poll_dials(now);
  if (!failed()) check_alone(now);
  if (!failed()) ping(now);
}

/// The peer may end its streams while chunks on all of them wait for receives that are not posted yet. Where
/// this end waits for something else all the same, for chunks that other streams have lost or for
/// acknowledgements, that cannot come on them, and they would keep the connection from seeing that its peer
/// is gone. What an attempt to open a stream may still bring gets longer.
void TcpConnection::lose_ended_streams(TimePoint now) {
  if (live_ == 0 || !waits() || !liveness_.gives_up_ended(now, dialing_)) return;
  for (std::size_t i = 0; i < streams_.size(); ++i)
    if (streams_[i].live() && !streams_[i].receive.ends_behind_a_chunk()) return;
  for (std::size_t i = 0; i < streams_.size() && !failed(); ++i)
    if (streams_[i].live()) lose(i, {StreamLoss::Why::kEnded});
}

void TcpConnection::take_arrivals() {
  for (unsigned most = kMostArrivals; most > 0 && !inbox_->empty() && !failed(); --most) {
    auto arrival = inbox_->take();
    if (!arrival) return;
    const std::size_t index = arrival->hello.stream;
    const std::uint32_t epoch = arrival->hello.epoch;
    // The peer has already replaced this stream by a later one.
    const std::uint32_t last = index < streams_.size() ? streams_[index].epoch() : 0;
    if (index < streams_.size() && epoch <= last) continue;
    if (epoch - last > kMostEpochsAhead) {
      local().log.warning("{}: dropped a stream {} from {}: its epoch {} is more than {} above the last, {}",
                          description_, index, arrival->peer, epoch, kMostEpochsAhead, last);
      continue;
    }
    try {
      grow(index + 1);
    } catch (const Error& error) {
      local().log.warning("{}: no further stream: {}", description_, error.what());
      continue;
    }
    lose(index, {StreamLoss::Why::kGivenUp});
    if (failed()) return;
    auto made = connected_stream(*settings_, *acceptor_, std::move(*arrival));
    Stream& stream = streams_[index];
    stream.path = {std::move(made.local_nic), std::move(made.peer_nic), std::move(made.limit)};
    for (Stream& each : streams_)
      if (each.meter == nullptr)
        each.meter = &meter_->add_stream(stream.path.local_nic, stream.path.peer_nic);
    meter_->decided_streams.set(streams_.size());
    if (made.target) targets_ = {std::move(made.target)};
    take_over(index, std::move(made.socket), std::move(made.tls), epoch, reconnector_.at(index));
  }
}

void TcpConnection::check_streams(TimePoint now) {
  if (!liveness_.paths_due(now, kCheckEvery)) return;
  std::size_t silent = 0;
  for (std::size_t i = 0; i < streams_.size(); ++i) {
    Stream& stream = streams_[i];
    if (!stream.live()) continue;
    if (stream.is(StreamState::kHalfClosed)) {  // nothing is written to it, so that nobody owes it an answer
      if (!reconnector_.away(i)) drop_dial(i);
      continue;
    }
    const bool before = stream.is(StreamState::kSuspect);
    const bool suspect = liveness_.path_is_silent(i, now, sockets::unanswered_for(stream.socket()),
                                                  sockets::round_trip_time(stream.socket()));
    if (suspect != before) stream.apply(suspect ? StreamEvent::kSilent : StreamEvent::kAnswered);
    if (suspect) ++silent;
    if (suspect && !before) reconnector_.suspected(i);
    if (!suspect && !reconnector_.away(i)) drop_dial(i);
  }
  // Where all streams are silent each may still recover, so that new ones are tried beside them.
  if (silent == 0 || silent == live_) return;
  for (std::size_t i = 0; i < streams_.size() && !failed(); ++i)
    if (streams_[i].is(StreamState::kSuspect)) lose(i, {StreamLoss::Why::kSilent, ETIMEDOUT});
}

void TcpConnection::check_alone(TimePoint now) {
  const bool ended =
      std::ranges::all_of(streams_, [](const Stream& stream) { return stream.is(StreamState::kEnded); });
  const Liveness::WhileAlone known{ended, !targets_.empty(), refusals_.turned_away()};
  const Liveness::Verdict verdict = liveness_.judge_alone(now, known);
  if (verdict == Liveness::Verdict::kWait) return;
  const std::string tried =
      refusals_.last().empty() ? "" : fmt::format("; last attempt: {}", refusals_.last());
  if (verdict == Liveness::Verdict::kVanished) {
    fail_with(Cause::kRemote, fmt::format("the peer vanished: {} (did its process die?){}", trouble_, tried),
              GoodbyeReason::kFailed, {});
  } else {
    fail_with(Cause::kTimeout,
              fmt::format("its last stream broke ({}) and none came back within {}{}, {}", trouble_,
                          format_seconds(to_seconds(liveness_.patience(known))), tried, in_flight()),
              GoodbyeReason::kTimeout, {});
  }
}

void TcpConnection::ping(TimePoint now) {
  // A sender's own bytes test the path. An end that only waits sends a ping, so that its kernel notices a
  // dead path.
  if (!(receiver_.pending() || liveness_.is_asked()) || sender_.unwritten() || live_ == 0) return;
  if (!liveness_.ping_due(now)) return;
  for (Stream& stream : streams_) {
    if (!stream.live()) continue;
    FrameHeader header;
    header.type = FrameType::kPing;
    header.ack = stream.receive.count();
    stream.send.say(header);
  }
  fresh_send_ = true;
}

}  // namespace tombolo::transport::tcp
