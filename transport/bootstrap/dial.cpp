#include "transport/bootstrap/dial.h"

#include <sys/socket.h>

#include <algorithm>
#include <cerrno>

#include "base/error.h"
#include "transport/bootstrap/destination.h"
#include "transport/kernel.h"

namespace tombolo::transport::bootstrap {

using sockets::Step;

namespace {

// The pause between two attempts: the peer may just be starting.
constexpr Duration kRetryAfter = std::chrono::milliseconds(50);
constexpr Duration kAnswerWithin = std::chrono::seconds(3);

}  // namespace

Dial::Dial(std::shared_ptr<const Local> local, std::shared_ptr<const Target> target, Deadline deadline)
    : local_(std::move(local)), target_(std::move(target)), deadline_(deadline) {}

void Dial::give_up(Cause cause, std::string_view why) const {
  fail(cause, "{}: {}", target_->description, why);
}

void Dial::retry(std::string why) {
  last_trouble_ = std::move(why);
  // An attempt without an answer or without a route is not counted as turned away.
  turned_away_ = state_ != State::kConnecting || refused_;
  // The peer may have accepted this stream: the next one needs a higher epoch.
  if (state_ == State::kProof || state_ == State::kReply) ++greeting_.epoch;
  tls_.reset();
  answer_ = Answer::kNone;
  socket_ = Descriptor();
  state_ = State::kWaiting;
  again_ = local_->clock->now() + kRetryAfter;
  hello_.clear();
  challenge_.clear();
  reader_ = sockets::MessageReader();
  writer_ = sockets::MessageWriter();
}

void Dial::greet(Hello hello, std::size_t streams) {
  greeting_ = std::move(hello);
  greeting_.host = local_->host;
  greeting_.nic = target_->nic;
  greeting_.cluster = local_->cluster;
  streams_ = streams;
}

/// Fails because the two ends' settings differ, or because another program answers. A further stream of an
/// existing connection only fails its attempt: its ends had equal settings before, so this is damage on the
/// way or an attack, and no reason to end the connection.
void Dial::differ(std::string why, Cause cause) {
  if (greeting_.purpose == Purpose::kJoin) give_up(cause, why);
  retry(std::move(why));
}

/// True once the stream is encrypted.
bool Dial::secure() {
  // A peer that uses no TLS answers in plain, which its first byte shows. Later bytes may be of the middle of
  // a record.
  std::byte first{};
  if (answer_ == Answer::kNone &&
      kernel().recv(socket_.get(), &first, sizeof first, MSG_PEEK | MSG_DONTWAIT) == sizeof first) {
    answer_ = first == sockets::kTlsHandshakeByte || first == sockets::kTlsAlertByte ? Answer::kTls
                                                                                     : Answer::kPlain;
    if (answer_ == Answer::kPlain) {
      tls_.reset();
      state_ = State::kChallenge;
      return false;
    }
  }
  switch (tls_->handshake()) {
    case Step::kAgain:
      return false;
    case Step::kEnded:
      retry("the peer closed it during the TLS handshake");
      return false;
    case Step::kError:
      if (tls_->settings_differ())
        differ(tls_->trouble());
      else
        retry(fmt::format("TLS handshake: {}", tls_->trouble()));
      return false;
    case Step::kDone:
      return true;
  }
  return false;
}

std::vector<std::byte> Dial::binding() const {
  if (!tls_) return {};
  const auto value = tls_->binding();
  return {value.begin(), value.end()};
}

void Dial::check_challenge() {
  challenge_.assign(reader_.bytes().begin(), reader_.bytes().end());
  const HandshakeStatus status = Challenge::decode(challenge_).status;
  if (status == HandshakeStatus::kTlsOff) {
    return differ(fmt::format(
        "TOMBOLO_TLS={} asks for TLS here, and the peer's TOMBOLO_TLS does not: set it to the same on every "
        "rank",
        name_of(local_->tls_use())));
  }
  if (status == HandshakeStatus::kTlsWanted) {
    return differ(
        fmt::format("the peer asks for TLS, TOMBOLO_TLS is {} here: set it to the same on every rank",
                    name_of(local_->tls_use())));
  }
  // It proves nothing, but tells a new connection that there is no point in trying again.
  if (status == HandshakeStatus::kGone) {
    if (answer_ == Answer::kPlain) return differ(gone_by_tls());
    return differ(
        greeting_.purpose == Purpose::kJoin ? gone() : "the peer says that it does not know this connection");
  }
  // A plain answer is not authenticated here, so nothing else in it is believed.
  if (answer_ == Answer::kPlain) return retry("what was begun with TLS was answered in plain");
  switch (status) {
    case HandshakeStatus::kOk:
      break;
    case HandshakeStatus::kRefused:
      return differ("the peer refused the handshake's values; do both ends run the same build?");
    case HandshakeStatus::kNoCarrier:
      return differ(fmt::format("the peer cannot use {}", carrier_name(greeting_.carrier)),
                    Cause::kUnsupported);
    case HandshakeStatus::kOtherProcess:
      return differ(
          "another process answers there, not the one that is meant (did that one end, or does something "
          "lead "
          "its streams astray?)");
    default:
      return differ(fmt::format("the peer refused the handshake (status {})", static_cast<int>(status)));
  }
  writer_.set(Proof{proof_mac(local_->secret, hello_, challenge_, binding())}.encode());
  state_ = State::kProof;
}

std::string Dial::gone() const {
  if (greeting_.purpose != Purpose::kJoin) return "the peer no longer has this connection";
  return greeting_.epoch == 0 ? "the peer's listener is gone"
                              : "the peer's listener is gone, or has closed the connection already";
}

/// TLS names the listener or connection, and not yet the process. So the answer may be that of another one.
std::string Dial::gone_by_tls() const {
  const bool join = greeting_.purpose == Purpose::kJoin;
  return fmt::format(
      "who answers there to TLS does not know the {} that is meant: the peer has closed it, or has ended and "
      "another process uses its address and port now; see whether the peer's process still runs, and what "
      "its "
      "log says",
      join ? "listener" : "connection");
}

Dial::State Dial::poll() {
  // Each moves on to the next state where it can, back to kWaiting after a failure, or stays.
  if (state_ == State::kWaiting) begin_attempt();
  if (state_ == State::kConnecting) end_connecting();
  if (state_ == State::kConnected) begin_handshake();
  if (state_ == State::kSecuring && secure()) state_ = State::kHello;
  if (state_ == State::kHello) send_hello();
  if (state_ == State::kChallenge) receive_challenge();
  if (state_ == State::kProof) send_proof();
  if (state_ == State::kReply) receive_reply();
  const bool answering = state_ > State::kConnected && state_ < State::kReady;
  if (answering && local_->clock->now() - greeted_ > patience()) {
    ++unanswered_;
    retry("no answer in the handshake");
  }
  return state_;
}

Duration Dial::patience() const noexcept {
  return kAnswerWithin * (1U << std::min(unanswered_, 5U));
}

Duration Dial::refused_for() const noexcept {
  return refused_ ? local_->clock->now() - refused_since_ : Duration::zero();
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
    if (longest_attempt_ != Duration::max() && local_->clock->now() - since_ > longest_attempt_) {
      refused_ = false;
      retry("no answer");
      turned_away_ = false;
    }
    return;
  }
  const int error = sockets::pending_error(socket);
  if (error == ECONNREFUSED && !refused_) refused_since_ = local_->clock->now();
  refused_ = error == ECONNREFUSED;
  if (error != 0) {
    retry(fmt::format("{} (errno {})", errno_text(error), error));
    turned_away_ |= error == ECONNRESET;  // it was accepted, and reset before this end looked
    return;
  }
  if (sockets::peer_text(socket) == "?") {
    retry("the connection was lost at once");
    turned_away_ = true;
    return;
  }
  if (sockets::is_self_connected(socket)) return retry(errno_text(ECONNREFUSED));
  state_ = State::kConnected;
}

void Dial::begin_handshake() {
  if (streams_ == 0) return;
  const int socket = socket_.get();
  greeted_ = local_->clock->now();
  random_bytes(greeting_.nonce);
  greeting_.patience_ms = static_cast<std::uint32_t>(
      std::clamp<std::int64_t>(deadline_.remaining() / std::chrono::milliseconds(1), 1, UINT32_MAX));
  hello_ = greeting_.encode();
  writer_.set(hello_);
  sockets::set_stream_options(socket, local_->idle_timeout);
  sockets::set_traffic_class(socket, local_->traffic_class);
  local_->backend_of(greeting_.carrier)->prepare_stream(socket, target_->nic, streams_);
  state_ = State::kHello;
  if (target_->tls) {
    tls_ = local_->tls->begin(socket, true, Destination::of(greeting_).server_name());
    state_ = State::kSecuring;
  }
}

void Dial::send_hello() {
  const sockets::StreamIo io(socket_.get(), tls_.get());
  const Step step = writer_.write(io);
  if (step == Step::kAgain) return;
  if (step == Step::kDone) {
    state_ = State::kChallenge;
    return;
  }
  const int error = writer_.error();
  // A peer that does not accept this end's certificate says so after this end was done.
  if (tls_) reader_.read(io, Preamble::kBytes);
  if (tls_ && tls_->settings_differ())
    differ(tls_->trouble());
  else
    retry(fmt::format("send: {}", errno_text(error)));
}

void Dial::receive_challenge() {
  const sockets::StreamIo io(socket_.get(), tls_.get());
  Step step = reader_.read(io, Preamble::kBytes);
  if (step == Step::kDone) {
    auto preamble = Preamble::decode(reader_.bytes().first<Preamble::kBytes>());
    if (!preamble) return differ("what answers there is not Tombolo; is the address another program's?");
    if (preamble->version != kProtocolVersion) return differ(other_version("the peer", preamble->version));
    if (preamble->size != Challenge::kBytes)
      return differ(
          fmt::format("the peer's challenge has {} bytes, not {}", preamble->size, Challenge::kBytes));
    step = reader_.read(io, Challenge::kBytes);
  }
  switch (step) {
    case Step::kAgain:
      return;
    case Step::kEnded:
      return retry("the peer closed it during the handshake");
    case Step::kError:
      if (tls_ && tls_->settings_differ()) return differ(tls_->trouble());
      return retry(fmt::format("receive: {}", errno_text(reader_.error())));
    case Step::kDone:
      check_challenge();
  }
}

void Dial::send_proof() {
  const Step step = writer_.write(sockets::StreamIo(socket_.get(), tls_.get()));
  if (step == Step::kAgain) return;
  if (step != Step::kDone) return retry(fmt::format("send: {}", errno_text(writer_.error())));
  reader_ = sockets::MessageReader();
  state_ = State::kReply;
}

void Dial::receive_reply() {
  const Step step = reader_.read(sockets::StreamIo(socket_.get(), tls_.get()), Reply::kBytes);
  if (step == Step::kAgain) return;
  if (step != Step::kDone) return retry("the peer closed it at the end of the handshake");
  check_reply();
}

void Dial::check_reply() {
  const auto bytes = reader_.bytes();
  try {
    reply_ = Reply::decode(bytes);
  } catch (const Error& error) {
    if (greeting_.purpose == Purpose::kJoin) throw;
    return retry(error.what());
  }
  if (reply_.status == HandshakeStatus::kOtherSecret)
    return differ(fmt::format("the two ends hold different secrets; {}", local_->secret_hint));
  if (!equal(reply_.mac, reply_mac(local_->secret, hello_, challenge_, bytes, binding()))) {
    return differ(
        "what answers there did not prove that it holds the secret: its answer was forged, or altered on its "
        "way");
  }
  switch (reply_.status) {
    case HandshakeStatus::kOk:
      state_ = State::kReady;
      return;
    case HandshakeStatus::kGone:
      give_up(Cause::kRemote, gone());
    default:
      retry("the peer did not accept the stream");
  }
}

Duration Dial::append_wait_handles(std::vector<pollfd>& handles, TimePoint now) const {
  switch (state_) {
    case State::kWaiting:
      return again_ - now;
    case State::kSecuring:
      handles.push_back({socket_.get(), static_cast<short>(tls_->pending() ? POLLIN | POLLOUT : POLLIN), 0});
      break;
    case State::kChallenge:
    case State::kReply:
      handles.push_back({socket_.get(), POLLIN, 0});
      break;
    case State::kConnecting:
    case State::kConnected:
    case State::kHello:
    case State::kProof:
      handles.push_back({socket_.get(), POLLOUT, 0});
      break;
    case State::kReady:
      break;
  }
  const bool answering = state_ > State::kConnected && state_ < State::kReady;
  return answering ? greeted_ + patience() - now : Duration::max();
}

}  // namespace tombolo::transport::bootstrap
