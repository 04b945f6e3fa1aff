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

void Dial::give_up(Cause cause, std::string_view why) const {
  fail(cause, "{}: {}", target_->description, why);
}

void Dial::retry(std::string why) {
  last_trouble_ = std::move(why);
  // An attempt without an answer or without a route is not counted as turned away.
  turned_away_ = state_ != State::kConnecting || refused_;
  // The peer may have accepted this stream: the next one needs a higher epoch.
  if (state_ == State::kFinish || state_ == State::kVerdict) ++greeting_.epoch;
  tls_.reset();
  answer_ = Answer::kNone;
  socket_ = Descriptor();
  state_ = State::kWaiting;
  again_ = local_->clock->now() + kRetryAfter;
  hello_.clear();
  reader_ = MessageReader();
  writer_ = MessageWriter();
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
    answer_ = first == kTlsHandshakeByte || first == kTlsAlertByte ? Answer::kTls : Answer::kPlain;
    if (answer_ == Answer::kPlain) {
      tls_.reset();
      state_ = State::kReply;
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

void Dial::check_reply() {
  auto bytes = reader_.bytes();
  try {
    reply_ = Reply::decode(bytes);
  } catch (const Error& error) {
    if (greeting_.purpose == Purpose::kJoin) throw;
    return retry(error.what());
  }
  Finish finish;
  if (reply_.status == HandshakeStatus::kTlsOff) {
    return differ(fmt::format(
        "TOMBOLO_TLS={} asks for TLS here, and the peer's TOMBOLO_TLS does not: set it to the same on every "
        "rank",
        name_of(local_->tls_use())));
  }
  if (reply_.status == HandshakeStatus::kTlsWanted) {
    return differ(
        fmt::format("the peer asks for TLS, TOMBOLO_TLS is {} here: set it to the same on every rank",
                    name_of(local_->tls_use())));
  }
  // It proves nothing, but tells a new connection that there is no point in trying again.
  if (reply_.status == HandshakeStatus::kGone) {
    return differ(greeting_.purpose == Purpose::kJoin
                      ? "the peer's listener is gone"
                      : "the peer says that it does not know this connection");
  }
  // A plain answer is not authenticated here, so nothing else in it is believed.
  if (answer_ == Answer::kPlain) return retry("what was begun with TLS was answered in plain");
  switch (reply_.status) {
    case HandshakeStatus::kOk:
      break;
    case HandshakeStatus::kRefused:
      return differ("the peer refused the handshake's values; do both ends run the same build?");
    case HandshakeStatus::kNoCarrier:
      return differ(fmt::format("the peer cannot use {}", carrier_name(greeting_.carrier)),
                    Cause::kUnsupported);
    default:
      return differ(
          fmt::format("the peer refused the handshake (status {})", static_cast<int>(reply_.status)));
  }
  std::vector<std::byte> binding;
  if (tls_) {
    const auto value = tls_->binding();
    binding.assign(value.begin(), value.end());
  }
  if (!equal(reply_.mac, reply_mac(local_->secret, hello_, bytes, binding))) {
    // The listener is told too, so that its log names the reason.
    finish.status = HandshakeStatus::kOtherSecret;
    writer_.set(finish.encode());
    writer_.write(StreamIo(socket_.get(), tls_.get()));
    return differ(fmt::format("the two ends hold different secrets; {}", local_->secret_hint));
  }
  finish.mac = finish_mac(local_->secret, hello_, bytes, binding);
  writer_.set(finish.encode());
  state_ = State::kFinish;
}

Dial::State Dial::poll() {
  // Each moves on to the next state where it can, back to kWaiting after a failure, or stays.
  if (state_ == State::kWaiting) begin_attempt();
  if (state_ == State::kConnecting) end_connecting();
  if (state_ == State::kConnected) begin_handshake();
  if (state_ == State::kSecuring && secure()) state_ = State::kHello;
  if (state_ == State::kHello) send_hello();
  if (state_ == State::kReply) receive_reply();
  if (state_ == State::kFinish) send_finish();
  if (state_ == State::kVerdict) receive_verdict();
  return state_;
}

void Dial::begin_attempt() {
  if (local_->clock->now() < again_) return;
  socket_ = start_connect(target_->nic, target_->local_address, target_->peer);
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
  const int error = pending_error(socket);
  refused_ = error == ECONNREFUSED;
  if (error != 0) {
    retry(fmt::format("{} (errno {})", errno_text(error), error));
    turned_away_ |= error == ECONNRESET;  // it was accepted, and reset before this end looked
    return;
  }
  if (peer_text(socket) == "?") {
    retry("the connection was lost at once");
    turned_away_ = true;
    return;
  }
  if (is_self_connected(socket)) return retry(errno_text(ECONNREFUSED));
  state_ = State::kConnected;
}

void Dial::begin_handshake() {
  if (streams_ == 0) return;
  const int socket = socket_.get();
  random_bytes(greeting_.nonce);
  greeting_.patience_ms = static_cast<std::uint32_t>(
      std::clamp<std::int64_t>(deadline_.remaining() / std::chrono::milliseconds(1), 1, UINT32_MAX));
  hello_ = greeting_.encode();
  writer_.set(hello_);
  set_stream_options(socket, local_->idle_timeout);
  local_->backend_of(greeting_.carrier)->prepare_stream(socket, target_->nic, streams_);
  state_ = State::kHello;
  if (target_->tls) {
    tls_ = local_->tls->begin(socket, true, Destination::of(greeting_).server_name());
    state_ = State::kSecuring;
  }
}

void Dial::send_hello() {
  const StreamIo io(socket_.get(), tls_.get());
  const Step step = writer_.write(io);
  if (step == Step::kAgain) return;
  if (step == Step::kDone) {
    state_ = State::kReply;
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

void Dial::receive_reply() {
  const StreamIo io(socket_.get(), tls_.get());
  Step step = reader_.read(io, Preamble::kBytes);
  if (step == Step::kDone) {
    auto preamble = Preamble::decode(reader_.bytes().first<Preamble::kBytes>());
    if (!preamble) return differ("what answers there is not Tombolo; is the address another program's?");
    if (preamble->version != kProtocolVersion || preamble->size != Reply::kBytes) {
      return differ(
          fmt::format("the peer speaks protocol version {}, this build {}; use one version on every host",
                      preamble->version, kProtocolVersion));
    }
    step = reader_.read(io, Reply::kBytes);
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
      check_reply();
  }
}

void Dial::send_finish() {
  const Step step = writer_.write(StreamIo(socket_.get(), tls_.get()));
  if (step == Step::kAgain) return;
  if (step != Step::kDone) return retry(fmt::format("send: {}", errno_text(writer_.error())));
  reader_ = MessageReader();
  state_ = State::kVerdict;
}

void Dial::receive_verdict() {
  const Step step = reader_.read(StreamIo(socket_.get(), tls_.get()), kVerdictBytes);
  if (step == Step::kAgain) return;
  if (step != Step::kDone) return retry("the peer closed it at the end of the handshake");
  switch (static_cast<HandshakeStatus>(reader_.bytes()[0])) {
    case HandshakeStatus::kOk:
      state_ = State::kReady;
      return;
    case HandshakeStatus::kGone:
      give_up(Cause::kRemote, greeting_.purpose == Purpose::kJoin ? "the peer's listener is gone"
                                                                  : "the peer no longer has this connection");
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
    case State::kReply:
    case State::kVerdict:
      handles.push_back({socket_.get(), POLLIN, 0});
      break;
    case State::kConnecting:
    case State::kConnected:
    case State::kHello:
    case State::kFinish:
      handles.push_back({socket_.get(), POLLOUT, 0});
      break;
    case State::kReady:
      break;
  }
  return Duration::max();
}

}  // namespace tombolo::transport::bootstrap
