// How a connection ends: on purpose, by a failure, or because the peer does not answer.
#include <poll.h>
#include <sys/socket.h>

#include <cerrno>

#include "base/units.h"
#include "transport/bootstrap/closing_sockets.h"
#include "transport/bootstrap/socket.h"
#include "transport/kernel.h"
#include "transport/tcp/connection.h"

namespace tombolo::transport::tcp {
namespace {

// After this many idle timeouts a peer is given up whose host is alive but whose process takes nothing; it
// may compute for long.
constexpr int kStalledFactor = 10;
// How long closing waits without progress for a stream that has to send again what was reported as sent.
constexpr Duration kReplayLinger = std::chrono::seconds(2);

}  // namespace

void TcpConnection::note_end(std::size_t index) noexcept {
  streams_[index].ended = true;
  lose(index, 0);
}

void TcpConnection::check_fault() noexcept {
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
      fail_with(Cause::kRemote, bootstrap::peer_closed(header.reason, header.total, header.offset),
                GoodbyeReason::kFailed, {});
      return;
  }
}

void TcpConnection::check_timeouts(TimePoint now) noexcept {
  if (!waits()) {
    last_moved_ = now;
    return;
  }
  if (now - last_moved_ < idle_timeout_ || alone_since_) return;
  Duration silent = Duration::max();
  for (const Stream& stream : streams_)
    if (stream.live) silent = std::min(silent, bootstrap::unanswered_for(stream.socket.get()));
  if (silent >= idle_timeout_) {
    fail_with(
        Cause::kTimeout,
        fmt::format("the peer's host has not answered for {}{}, {}", format_seconds(to_seconds(silent)),
                    last_dial_.empty() ? "" : fmt::format(" (a new stream: {})", last_dial_), in_flight()),
        GoodbyeReason::kTimeout, {});
    return;
  }
  // A waiting receive alone is not a failure while the peer's host answers: the peer may compute.
  if ((sender_.unwritten() || sender_.waiting()) && now - last_moved_ >= kStalledFactor * idle_timeout_) {
    fail_with(Cause::kTimeout,
              fmt::format("the peer took nothing for {}, {}", format_seconds(to_seconds(now - last_moved_)),
                          in_flight()),
              GoodbyeReason::kTimeout, {});
  }
}

std::string TcpConnection::in_flight() noexcept {
  if (sender_.waiting() || sender_.unwritten()) {
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
  if (error_) return;
  error_.emplace(cause, fmt::format("{}: {}", description_, what));
  local_->log.trace("{}", error_->what());
  FrameHeader header = about;
  header.type = FrameType::kGoodbye;
  header.reason = reason;
  header.length = 0;
  say_goodbye(header);
  // This also wakes a thread that polls, because an ended socket is always ready.
  for (Stream& stream : streams_) {
    stream.dial.reset();
    if (stream.live) kernel().shutdown(stream.socket.get(), SHUT_RDWR);
  }
  acceptor_->close_connection(hello_.connection, side());
}

void TcpConnection::say_goodbye(const FrameHeader& header) noexcept {
  HeaderBytes bytes;
  encode(header, bytes);
  for (std::size_t i = 0; i < streams_.size(); ++i) {
    if (!streams_[i].live || sender_.mid_frame(i)) continue;
    iovec part{bytes.data(), bytes.size()};
    if (streams_[i].tls) {
      streams_[i].tls->close(bytes);
      continue;
    }
    [[maybe_unused]] auto sent = streams_[i].io().write({&part, 1});
  }
}

void TcpConnection::flush_out() noexcept {
  if (!sender_.owes()) return;
  auto deadline = Deadline::after(idle_timeout_, *clock_);
  last_moved_ = clock_->now();
  moved_ = false;
  std::vector<pollfd> waiting;
  while (!error_ && sender_.owes() && !deadline.passed() && clock_->now() - last_moved_ < kReplayLinger) {
    if (advance()) continue;
    waiting.clear();
    append_wait_handles(waiting);
    kernel().poll(waiting.data(), waiting.size(), 10);
  }
}

void TcpConnection::leave() noexcept {
  if (announce_due_) announce();
  bootstrap::ClosingSockets& closing = acceptor_->closing_sockets();
  for (std::size_t i = 0; i < streams_.size(); ++i) {
    Stream& stream = streams_[i];
    if (!stream.live) continue;
    std::vector<std::byte> last_words = last_words_on(i);
    if (stream.tls) {
      if (!last_words.empty()) stream.tls->close(last_words);
      const auto sealed = stream.tls->unwritten();
      last_words.assign(sealed.begin(), sealed.end());
    }
    closing.add(std::move(stream.socket), last_words, idle_timeout_);
  }
}

/// The peer's sends may wait for an acknowledgement that had no room yet, so that it goes before the goodbye.
std::vector<std::byte> TcpConnection::last_words_on(std::size_t index) const {
  if (sender_.mid_chunk(index)) return {};  // what follows would be taken for the chunk's rest
  std::vector<std::byte> words = sender_.last_words(index);
  FrameHeader ack;
  ack.type = FrameType::kAck;
  ack.ack = receiver_.count(index);
  FrameHeader goodbye;
  goodbye.type = FrameType::kGoodbye;
  goodbye.reason = GoodbyeReason::kClosed;
  for (const FrameHeader& header : {ack, goodbye}) {
    HeaderBytes bytes;
    encode(header, bytes);
    words.insert(words.end(), bytes.begin(), bytes.end());
  }
  return words;
}

}  // namespace tombolo::transport::tcp
