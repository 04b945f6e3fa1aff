#include "transport/bootstrap/dial.h"

#include <sys/socket.h>

#include <algorithm>
#include <cerrno>

#include "base/error.h"
#include "transport/bootstrap/destination.h"
#include "transport/kernel.h"

namespace tombolo::transport::bootstrap {
namespace {

// The pause between two attempts: the peer may just be starting.
constexpr Duration kRetryAfter = std::chrono::milliseconds(50);

}  // namespace

Dial::Dial(std::shared_ptr<const Local> local, std::shared_ptr<const Target> target, Deadline deadline)
    : local_(std::move(local)), target_(std::move(target)), deadline_(deadline) {}

void Dial::retry(std::string why, bool turned_away) {
  last_trouble_ = std::move(why);
  turned_away_ = turned_away;
  // The next attempt needs a higher epoch than one that the peer has accepted.
  if (may_be_accepted()) ++greeting_.epoch;
  handshake_.reset();
  socket_ = Descriptor();
  state_ = State::kWaiting;
  again_ = local_->clock->now() + kRetryAfter;
}

void Dial::greet(Hello hello, std::size_t streams) {
  greeting_ = std::move(hello);
  greeting_.host = local_->host;
  greeting_.nic = target_->nic;
  greeting_.cluster = local_->cluster;
  streams_ = streams;
}

Dial::State Dial::poll() {
  // Each moves on to the next state where it can, back to kWaiting after a failure, or stays.
  if (state_ == State::kWaiting) begin_attempt();
  if (state_ == State::kConnecting) end_connecting();
  if (state_ == State::kConnected) begin_handshake();
  if (state_ == State::kHandshake) go_on_with_handshake();
  return state_;
}

Duration Dial::patience() const noexcept {
  return kAnswerWithin * (1U << std::min(unanswered_, 5U));
}

Duration Dial::refused_for() const noexcept {
  return refused_since_ ? local_->clock->now() - *refused_since_ : Duration::zero();
}

void Dial::begin_attempt() {
  if (local_->clock->now() < again_) return;
  socket_ = sockets::start_connect(target_->nic, target_->local_address, target_->peer);
  state_ = State::kConnecting;
  since_ = local_->clock->now();
}

void Dial::end_connecting() {
  const int socket = socket_.get();
  pollfd writable{socket, POLLOUT, 0};
  if (kernel().poll(&writable, 1, 0) == 0) {
    if (longest_attempt_ == Duration::max() || local_->clock->now() - since_ <= longest_attempt_) return;
    refused_since_.reset();
    return retry("no answer", false);
  }
  const int error = sockets::pending_error(socket);
  const bool refused = error == ECONNREFUSED;
  if (!refused) refused_since_.reset();
  if (refused && !refused_since_) refused_since_ = local_->clock->now();
  if (error != 0) {
    // Where it was reset it had been accepted, before this end looked.
    return retry(fmt::format("{} (errno {})", errno_text(error), error), refused || error == ECONNRESET);
  }
  if (sockets::peer_text(socket) == "?") return retry("the connection was lost at once", true);
  if (sockets::is_self_connected(socket)) return retry(errno_text(ECONNREFUSED), false);
  state_ = State::kConnected;
}

void Dial::begin_handshake() {
  if (streams_ == 0) return;
  const int socket = socket_.get();
  since_ = local_->clock->now();
  random_bytes(greeting_.nonce);
  greeting_.patience_ms = static_cast<std::uint32_t>(
      std::clamp<std::int64_t>(deadline_.remaining() / std::chrono::milliseconds(1), 1, UINT32_MAX));
  sockets::set_stream_options(socket, local_->idle_timeout);
  sockets::set_traffic_class(socket, local_->traffic_class);
  local_->backend_of(greeting_.carrier)->prepare_stream(socket, target_->nic, streams_);
  std::unique_ptr<sockets::TlsStream> tls;
  if (target_->tls) tls = local_->tls->begin(socket, true, Destination::of(greeting_).server_name());
  handshake_.emplace(local_, greeting_, socket, std::move(tls));
  state_ = State::kHandshake;
}

void Dial::go_on_with_handshake() {
  handshake_->poll();
  if (handshake_->ready()) {
    state_ = State::kReady;
  } else if (const auto& failure = handshake_->failure()) {
    if (failure->lasting) fail(failure->cause, "{}: {}", target_->description, failure->why);
    retry(failure->why, true);
  } else if (local_->clock->now() - since_ > patience()) {
    ++unanswered_;
    retry("no answer in the handshake", true);
  }
}

Duration Dial::append_wait_handles(std::vector<pollfd>& handles, TimePoint now) const {
  switch (state_) {
    case State::kWaiting:
      return again_ - now;
    case State::kConnecting:
    case State::kConnected:
      handles.push_back({socket_.get(), POLLOUT, 0});
      break;
    case State::kHandshake:
      handles.push_back({socket_.get(), handshake_->awaited_events(), 0});
      return since_ + patience() - now;
    case State::kReady:
      break;
  }
  return Duration::max();
}

}  // namespace tombolo::transport::bootstrap
