// Opening streams: the connecting end opens broken and additional ones; the accepting end asks whether the
// peer lives.
#include <algorithm>
#include <cerrno>

#include "transport/tcp/connection.h"

namespace tombolo::transport::tcp {
namespace {

/// Whether the peer may have accepted an attempt to open the stream.
bool answer_due_on(const Stream& stream) noexcept {
  return stream.dial && stream.dial->may_be_accepted();
}

}  // namespace

void TcpConnection::poll_dials(TimePoint now) {
  if (!connecting_) {
    if (live_ == 0) ask(now);
  } else {
    dialing_ = false;
    for (std::size_t i = 0; i < streams_.size() && !failed(); ++i) {
      Stream& stream = streams_[i];
      if (!reconnector_.wants(i, stream.state())) continue;
      if (live_ == 0) reconnector_.hurry(i, now);
      try {
        dial(i, now);
      } catch (const Error& error) {
        // The peer said that it does not have this connection, or another process answered on its port.
        const bool gives_up = error.cause() == Cause::kRemote && live_ == 0;
        attempt_failed(i, now, error.what());
        if (gives_up) {
          shutdown_.peer_is_gone(fmt::format("{}; then: {}", trouble_, refusals_.last()));
          return await_answers(now);
        }
      }
      dialing_ |= stream.dial != nullptr;
    }
  }
  if (failed() || live_ != 0 || !refusals_.all_of(targets_.size())) return;
  fail_with(
      Cause::kRemote,
      fmt::format("the peer vanished: {}, and its address now refuses connections (did its process die?)",
                  trouble_),
      GoodbyeReason::kFailed, {});
}

/// Whether the peer may have accepted a stream without this end knowing. Then it may have sent something on
/// that stream before it left.
bool TcpConnection::answer_due() const noexcept {
  return std::ranges::any_of(streams_, [](const Stream& stream) { return answer_due_on(stream); });
}

/// Whether the peer may drop a live stream although it works, with what is under way on it: because it has
/// accepted another socket for it, or has given up the attempt by which this one came.
bool TcpConnection::may_be_dropped(const Stream& stream) const noexcept {
  return stream.live() && (stream.unconfirmed || answer_due_on(stream));
}

/// Once the peer has left no stream is opened any more, but those that it has accepted are taken over.
void TcpConnection::await_answers(TimePoint now) {
  dialing_ = false;
  for (std::size_t i = 0; i < streams_.size() && !failed(); ++i) {
    Stream& stream = streams_[i];
    if (!answer_due_on(stream)) drop_dial(i);
    if (!stream.dial) continue;
    try {
      dial(i, now);
    } catch (const Error& error) {
      attempt_failed(i, now, error.what());
    }
    dialing_ |= stream.dial != nullptr;
  }
  if (shutdown_.complete(live_, dialing_)) fail_closed();
}

void TcpConnection::attempt_failed(std::size_t index, TimePoint now, std::string why) {
  Stream& stream = streams_[index];
  if (stream.dial) {
    reconnector_.not_accepted(index, stream.dial->epoch());
    note_attempt(*stream.dial, reconnector_.target(index));
    stream.dial.reset();
  }
  refusals_.say(std::move(why));
  reconnector_.failed(index, stream.state(), targets_.size(), live_ == 0, now);
}

void TcpConnection::drop_dial(std::size_t index) noexcept {
  Stream& stream = streams_[index];
  if (stream.dial) reconnector_.dropped(index, stream.dial->epoch());
  stream.dial.reset();
}

void TcpConnection::note_attempt(const bootstrap::Dial& dial, std::size_t target) noexcept {
  refusals_.note(target, dial.refused(), dial.turned_away());
}

void TcpConnection::dial(std::size_t index, TimePoint now) {
  Stream& stream = streams_[index];
  if (!stream.dial) {
    const auto attempt = reconnector_.begin(index, stream.state(), targets_.size(), now);
    if (!attempt) return;
    stream.dial = std::make_unique<bootstrap::Dial>(acceptor_->local(), targets_[attempt->target],
                                                    Deadline::after(local().idle_timeout, clock()));
    stream.dial->limit_attempts(attempt->patience);
    bootstrap::Hello hello = hello_;
    hello.purpose = bootstrap::Purpose::kRejoin;
    hello.stream = static_cast<std::uint16_t>(index);
    hello.streams = static_cast<std::uint16_t>(streams_.size());
    hello.epoch = attempt->epoch;
    // The port on which this process accepts streams on the NIC by which this one leaves.
    hello.reply_port = acceptor_->port_of(targets_[attempt->target]->local_address);
    stream.dial->greet(std::move(hello), streams_.size());
  }
  if (stream.dial->poll() == bootstrap::Dial::State::kReady) {
    const std::uint32_t epoch = stream.dial->epoch();
    const std::size_t at = reconnector_.target(index);
    Descriptor socket = stream.dial->take_socket();
    auto tls = stream.dial->take_tls();
    stream.path.peer_nic = stream.dial->reply().nic;
    lose(index, stream.is(StreamState::kSuspect) ? StreamLoss::of(ETIMEDOUT) : StreamLoss{});
    if (failed()) return;
    stream.path.local_nic = targets_[at]->nic;
    stream.path.limit = settings_->limit_of(stream.path.local_nic);
    take_over(index, std::move(socket), std::move(tls), epoch, at);
  } else if (!stream.dial->last_trouble().empty()) {
    attempt_failed(index, now, stream.dial->last_trouble());
  } else if (reconnector_.overdue(index, now)) {
    drop_dial(index);
    attempt_failed(index, now, "no answer in the handshake");
  }
}

void TcpConnection::ask(TimePoint now) {
  if (targets_.empty()) return;
  const PeerQuestion::Answer answer = question_.poll(acceptor_->local(), targets_[0], hello_, refusals_, now);
  if (answer != PeerQuestion::Answer::kGone) return;
  shutdown_.peer_left_for_another();
  fail_with(Cause::kRemote, fmt::format("{}; then: {}", trouble_, refusals_.last()), GoodbyeReason::kFailed,
            {});
}

}  // namespace tombolo::transport::tcp
