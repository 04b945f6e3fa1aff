// Opening streams: the connecting end opens broken and additional ones; the accepting end asks whether the
// peer lives.
#include <algorithm>

#include "transport/tcp/connection.h"

namespace tombolo::transport::tcp {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;

// How long an attempt to open a stream may go unanswered by the peer's kernel before it is given up: this
// kernel would try again only after 1, 3 and 7 s. The handshake, which the peer's process answers, gets
// longer. Both times double with each failure.
constexpr Duration kAttempt = milliseconds(350);
constexpr Duration kHandshake = seconds(1);
// How often the accepting end asks whether the peer lives.
constexpr Duration kAskAgain = seconds(1);
// The pause between two attempts to open a broken stream. It grows to at most kSlowestRedial, because all
// others may wait for what that stream had under way; for a stream that never existed it grows to at most
// kSlowestFirst.
constexpr Duration kRedialAfter = milliseconds(20);
constexpr Duration kSlowestRedial = milliseconds(160);
constexpr Duration kSlowestFirst = seconds(5);
// How long a stream stays away before it is brought back to its own NICs. It doubles each time that their
// path fell silent soon after, because such an attempt costs kSilent.
constexpr Duration kHomeAgain = seconds(1);
constexpr unsigned kMostDoublings = 5;

}  // namespace

void TcpConnection::poll_dials(TimePoint now) noexcept {
  if (!connecting_) {
    if (live_ == 0) ask(now);
  } else {
    dialing_ = false;
    for (std::size_t i = 0; i < streams_.size() && !error_; ++i) {
      Stream& stream = streams_[i];
      if (stream.live && !stream.suspect && !away(stream)) continue;
      if (live_ == 0) stream.dial_after = std::min(stream.dial_after, now + kRedialAfter);
      try {
        dial(i, now);
      } catch (const Error& error) {
        // The peer said that it does not have this connection, or another process answered on its port.
        const bool gives_up = error.cause() == Cause::kRemote && live_ == 0;
        attempt_failed(stream, now, error.what());
        if (gives_up) {
          fail_with(Cause::kRemote, fmt::format("{}; then: {}", trouble_, last_dial_), GoodbyeReason::kFailed,
                    {});
        }
      }
      dialing_ |= stream.dial != nullptr;
    }
  }
  const std::uint64_t all = targets_.size() < 64 ? (std::uint64_t{1} << targets_.size()) - 1 : UINT64_MAX;
  if (error_ || live_ != 0 || all == 0 || (refusing_ & all) != all) return;
  fail_with(
      Cause::kRemote,
      fmt::format("the peer vanished: {}, and its address now refuses connections (did its process die?)",
                  trouble_),
      GoodbyeReason::kFailed, {});
}

void TcpConnection::attempt_failed(Stream& stream, TimePoint now, std::string why) noexcept {
  if (stream.dial) {
    stream.next_epoch = std::max(stream.next_epoch, stream.dial->epoch());
    note_attempt(*stream.dial, stream.next);
    stream.dial.reset();
  }
  last_dial_ = std::move(why);
  ++stream.failures;
  if (stream.live && !stream.suspect) {
    stream.dial_after = now + home_again(stream);
    return;
  }
  stream.next = (stream.next + 1) % targets_.size();
  const Duration slowest = stream.meter->breaks.get() != 0 || stream.live ? kSlowestRedial : kSlowestFirst;
  stream.dial_after =
      now + (live_ == 0 ? kRedialAfter
                        : std::min<Duration>(kRedialAfter * (1U << std::min(stream.failures, 10U)), slowest));
}

Duration TcpConnection::home_again(const Stream& stream) noexcept {
  return kHomeAgain * (1U << std::min(stream.home_breaks, kMostDoublings));
}

/// Drops an attempt. The peer may already have accepted it, so the next one gets a higher epoch.
void TcpConnection::drop_dial(Stream& stream) noexcept {
  if (!stream.dial) return;
  stream.next_epoch = std::max(stream.next_epoch, stream.dial->epoch() + 1);
  stream.dial.reset();
}

void TcpConnection::note_attempt(const bootstrap::Dial& dial, std::size_t target) noexcept {
  const std::uint64_t bit = std::uint64_t{1} << target % 64;
  refusing_ = dial.refused() ? refusing_ | bit : refusing_ & ~bit;
  turned_away_ = dial.turned_away() ? turned_away_ + 1 : 0;
}

void TcpConnection::dial(std::size_t index, TimePoint now) {
  Stream& stream = streams_[index];
  if (!stream.dial) {
    if (now < stream.dial_after) return;
    // A live stream over other NICs is tried over its own; a suspect one is tried over others first.
    if (stream.live) {
      if (!stream.suspect) {
        stream.next = stream.home;
      } else if (stream.failures == 0) {
        stream.next = (stream.at + 1) % targets_.size();
      }
    }
    stream.dial = std::make_unique<bootstrap::Dial>(local_, targets_[stream.next],
                                                    Deadline::after(idle_timeout_, *clock_));
    // Each attempt gets longer, because the path's round trip may be that long.
    stream.dial->limit_attempts(kAttempt * (1U << std::min(stream.failures, 3U)));
    stream.dial_since = now;
    bootstrap::Hello hello = hello_;
    hello.purpose = bootstrap::Purpose::kRejoin;
    hello.stream = static_cast<std::uint16_t>(index);
    hello.streams = static_cast<std::uint16_t>(streams_.size());
    hello.epoch = stream.next_epoch;
    // The port on which this process accepts streams on the NIC by which this one leaves.
    hello.reply_port = acceptor_->port_of(targets_[stream.next]->local_address);
    stream.dial->greet(std::move(hello), streams_.size());
  }
  if (stream.dial->poll() == bootstrap::Dial::State::kReady) {
    const std::uint32_t epoch = stream.dial->epoch();
    const std::size_t at = stream.next;
    Descriptor socket = stream.dial->take_socket();
    auto tls = stream.dial->take_tls();
    stream.peer_nic = stream.dial->reply().nic;
    lose(index, stream.suspect ? ETIMEDOUT : 0);
    if (error_) return;
    stream.at = at;
    stream.local_nic = targets_[at]->nic;
    stream.limit = settings_->limit_of(stream.local_nic);
    stream.next_epoch = epoch + 1;
    stream.dial_after = now + home_again(stream);
    take_over(index, std::move(socket), std::move(tls), epoch);
  } else if (!stream.dial->last_trouble().empty()) {
    attempt_failed(stream, now, stream.dial->last_trouble());
  } else if (now - stream.dial_since > kHandshake * (1U << std::min(stream.failures, kMostDoublings))) {
    drop_dial(stream);
    attempt_failed(stream, now, "no answer in the handshake");
  }
}

void TcpConnection::ask(TimePoint now) noexcept {
  if (targets_.empty()) return;
  try {
    if (!asking_) {
      if (now < ask_after_) return;
      asking_ =
          std::make_unique<bootstrap::Dial>(local_, targets_[0], Deadline::after(idle_timeout_, *clock_));
      asking_->limit_attempts(kAttempt);
      bootstrap::Hello hello = hello_;
      hello.purpose = bootstrap::Purpose::kAsk;
      std::swap(hello.process, hello.sender);
      hello.stream = 0;
      asking_->greet(std::move(hello), 1);
    }
    if (asking_->poll() == bootstrap::Dial::State::kReady) {
      // The peer lives, and will open its streams again.
      asking_.reset();
      ask_after_ = now + kAskAgain;
      refusing_ = 0;
      turned_away_ = 0;
    } else if (!asking_->last_trouble().empty()) {
      last_dial_ = asking_->last_trouble();
      note_attempt(*asking_, 0);
      asking_.reset();
      ask_after_ = now + kRedialAfter;
    }
  } catch (const Error& error) {
    asking_.reset();
    ask_after_ = now + kAskAgain;
    last_dial_ = error.what();
    if (error.cause() == Cause::kRemote) {
      fail_with(Cause::kRemote, fmt::format("{}; then: {}", trouble_, last_dial_), GoodbyeReason::kFailed,
                {});
    }
  }
}

}  // namespace tombolo::transport::tcp
