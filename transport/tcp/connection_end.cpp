// How a connection ends: on purpose, by a failure, or because the peer does not answer.
#include <poll.h>
#include <sys/socket.h>

#include <algorithm>
#include <cerrno>

#include "base/units.h"
#include "transport/kernel.h"
#include "transport/sockets/closing_sockets.h"
#include "transport/sockets/socket.h"
#include "transport/tcp/connection.h"

namespace tombolo::transport::tcp {

void TcpConnection::check_fault() {
  const FrameHeader& header = receiver_.fault_header();
  switch (receiver_.fault()) {
    case Receiver::Fault::kNone:
      return;
    case Receiver::Fault::kTooLarge: {
      FrameHeader about = header;
      about.offset = receiver_.fault_capacity();
      fail_with(Cause::kRemote,
                fmt::format("message {} has {} bytes, but the receive posted for it takes {} bytes",
                            header.sequence, header.total, receiver_.fault_capacity()),
                GoodbyeReason::kTooLarge, about);
      return;
    }
    case Receiver::Fault::kMalformed:
      fail_with(
          Cause::kRemote,
          fmt::format("the peer sent bytes that are no valid frame here (message {}, offset {}, length {}, "
                      "total {}; message {} was due)",
                      header.sequence, header.offset, header.length, header.total, receiver_.oldest()),
          GoodbyeReason::kMalformed, {});
      return;
    case Receiver::Fault::kPeerFailed:
      if (header.reason == GoodbyeReason::kPathFailed) shutdown_.peer_left_for_another();
      fail_with(Cause::kRemote, peer_closed(header.reason, header.total, header.offset),
                GoodbyeReason::kFailed, {});
      return;
  }
}

void TcpConnection::check_timeouts(TimePoint now) {
  if (!liveness_.overdue(now, waits())) return;
  Duration silent = Duration::max();
  for (const Stream& stream : streams_)
    if (stream.live()) silent = std::min(silent, sockets::unanswered_for(stream.socket()));
  const Liveness::Verdict verdict = liveness_.judge(now, silent, sends());
  if (verdict == Liveness::Verdict::kHostSilent) {
    fail_with(
        Cause::kTimeout,
        fmt::format("the peer's host has not answered for {}{}, {}", format_seconds(to_seconds(silent)),
                    refusals_.last().empty() ? "" : fmt::format(" (a new stream: {})", refusals_.last()),
                    in_flight()),
        GoodbyeReason::kTimeout, {});
  } else if (verdict == Liveness::Verdict::kStalled) {
    fail_with(Cause::kTimeout,
              fmt::format("the peer took nothing for {}, {}",
                          format_seconds(to_seconds(liveness_.quiet_for(now))), in_flight()),
              GoodbyeReason::kTimeout, {});
  }
}

void TcpConnection::fail_closed() {
  if (const std::string& how = shutdown_.how_peer_left(); !how.empty()) {
    shutdown_.peer_left_for_another();
    return fail_with(Cause::kRemote, how, GoodbyeReason::kFailed, {});
  }
  fail_with(Cause::kRemote, peer_closed(GoodbyeReason::kClosed), GoodbyeReason::kClosed, {});
}

std::string TcpConnection::in_flight() {
  if (sends()) {
    return fmt::format("while sending message {} of {}", sender_.oldest(),
                       format_size(sender_.oldest_size()));
  }
  if (const auto* receive = receiver_.oldest_request()) {
    return receive->known ? fmt::format("while receiving message {} ({} of {} bytes so far)",
                                        receiver_.oldest(), receive->moved, receive->total)
                          : fmt::format("while waiting for message {}", receiver_.oldest());
  }
  return "with nothing in flight";
}

void TcpConnection::fail_with(Cause cause, std::string_view what, GoodbyeReason reason,
                              const FrameHeader& about) noexcept {
  if (failed()) return;
  shutdown_.fail(texts_.error(cause, {description_, ": ", what}));
  trace_failure(local().log, *shutdown_.error());
  say_goodbye(Shutdown::goodbye(reason, about));
  // This also wakes a thread that polls, because an ended socket is always ready.
  for (Stream& stream : streams_) {
    stream.dial.reset();
    if (stream.live()) kernel().shutdown(stream.socket(), SHUT_RDWR);
  }
  acceptor_->close_connection(hello_.connection, side());
}

/// A chunk goes into a receive only, so that none has come early.
std::optional<Error> TcpConnection::fence(const Take& /*early*/, const Take& unsure) noexcept {
  const Turns::Turn turn(turns_);
  std::optional<Error> missing;
  if (!shutdown_.leave_for_another()) return missing;
  fail_with(Cause::kAborted, "its messages go on over another way", GoodbyeReason::kPathFailed, {});
  transport::guarded(
      [&] { sender_.for_each_in_doubt(unsure); },
      [&](Cause cause, std::string_view what) noexcept {
        missing = texts_.error(cause, {description_, ": what may not have arrived cannot be taken: ", what});
      });
  return missing;
}

void TcpConnection::say_goodbye(const FrameHeader& header) noexcept {
  HeaderBytes bytes;
  encode(header, bytes);
  for (const Stream& stream : streams_) {
    if (!stream.live() || stream.send.mid_frame()) continue;
    iovec part{bytes.data(), bytes.size()};
    if (stream.tls()) {
      stream.tls()->close(bytes);
      continue;
    }
    [[maybe_unused]] auto sent = stream.io().write({&part, 1});
  }
}

bool TcpConnection::owes() const noexcept {
  bool summaries = false, told = false;
  for (const Stream& stream : streams_) {
    const bool in_doubt = may_be_dropped(stream);
    if (sender_.owes(stream, in_doubt) || (in_doubt && stream.receive.count() != 0)) return true;
    summaries |= !stream.epoch_summaries().empty();
    told |= stream.live() && !in_doubt;
  }
  return summaries && !told && live_ != 0;
}

/// Waits until what was reported as sent has been sent again, where streams have broken.
void TcpConnection::flush_out() {
  if (!owes()) return;
  const TimePoint begun = clock().now();
  bootstrap::ClosingPatience& patience = acceptor_->closing_patience();
  shutdown_.begin_flush(begun, local().idle_timeout, patience.left(begun));
  liveness_.restart(begun);
  std::vector<pollfd> waiting;
  for (TimePoint now = begun; shutdown_.flushes(now, owes(), liveness_.quiet_for(now)); now = clock().now()) {
    if (advance()) continue;
    waiting.clear();
    append_wait_handles(waiting);
    kernel().poll(waiting.data(), waiting.size(), 10);
  }
  if (failed() || !owes()) return;
  const TimePoint now = clock().now();
  patience.spend(liveness_.quiet_for(now), now);
}

void TcpConnection::leave() {
  if (announce_due_) announce();
  sockets::ClosingSockets& closing = acceptor_->closing_sockets();
  for (Stream& stream : streams_) {
    if (!stream.live()) continue;
    // Behind part of a chunk, what followed would be taken for the chunk's rest.
    std::vector<std::byte> last_words;
    if (!stream.send.mid_chunk())
      last_words = Shutdown::last_words(stream.send.last_words(), stream.receive.count());
    if (stream.tls()) {
      if (!last_words.empty()) stream.tls()->close(last_words);
      const auto sealed = stream.tls()->unwritten();
      last_words.assign(sealed.begin(), sealed.end());
    }
    closing.add(stream.take_socket(), last_words, local().idle_timeout);
  }
}

}  // namespace tombolo::transport::tcp
