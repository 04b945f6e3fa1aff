#include "transport/bootstrap/connecting_handshake.h"

#include <poll.h>
#include <sys/socket.h>

#include <cerrno>
#include <utility>

#include "transport/kernel.h"

namespace tombolo::transport::bootstrap {

using sockets::Step;

ConnectingHandshake::ConnectingHandshake(std::shared_ptr<const Local> local, Hello hello, int socket,
                                         std::unique_ptr<sockets::TlsStream> tls)
    : local_(std::move(local)),
      hello_(std::move(hello)),
      socket_(socket),
      tls_(std::move(tls)),
      state_(tls_ ? State::kSecuring : State::kHello),
      hello_bytes_(hello_.encode()) {
  writer_.set(hello_bytes_);
}

void ConnectingHandshake::poll() {
  // Each moves on to the next state where it can, or stays; one that fails stays for good.
  if (failure_) return;
  if (state_ == State::kSecuring) secure();
  if (state_ == State::kHello) send_hello();
  if (state_ == State::kChallenge) receive_challenge();
  if (state_ == State::kProof) send_proof();
  if (state_ == State::kReply) receive_reply();
}

/// A later attempt may succeed.
void ConnectingHandshake::end(std::string why) {
  failure_ = Failure{std::move(why)};
}

/// Fails because the two ends' settings differ, or because another program answers. A further stream of an
/// existing connection only fails its attempt: its ends had equal settings before, so this is damage on the
/// way or an attack, and no reason to end the connection.
void ConnectingHandshake::differ(std::string why, Cause cause) {
  failure_ = Failure{std::move(why), joins(), cause};
}

/// A peer that uses no TLS answers in plain, which its first byte shows. So the session reads nothing before
/// that byte was seen: the next ones may be of the middle of a record.
ConnectingHandshake::Answer ConnectingHandshake::look_for_answer() {
  std::byte first{};
  ssize_t got = -1;
  do got = kernel().recv(socket_, &first, sizeof first, MSG_PEEK | MSG_DONTWAIT);
  while (got < 0 && errno == EINTR);
  if (got < 0 && (errno == EAGAIN || errno == EWOULDBLOCK)) return Answer::kNone;
  if (got > 0 && first != sockets::kTlsHandshakeByte && first != sockets::kTlsAlertByte)
    return Answer::kPlain;
  return Answer::kTls;  // or the socket has ended or failed, which the session says
}

void ConnectingHandshake::secure() {
  if (answer_ == Answer::kNone) answer_ = look_for_answer();
  if (answer_ == Answer::kPlain) {
    tls_.reset();
    state_ = State::kChallenge;
    return;
  }
  switch (answer_ == Answer::kNone ? tls_->begin_handshake() : tls_->handshake()) {
    case Step::kAgain:
      return;
    case Step::kEnded:
      return end("the peer closed it during the TLS handshake");
    case Step::kError:
      if (tls_->settings_differ()) return differ(tls_->trouble());
      return end(fmt::format("TLS handshake: {}", tls_->trouble()));
    case Step::kDone:
      state_ = State::kHello;
  }
}

void ConnectingHandshake::send_hello() {
  const Step step = writer_.write(io());
  if (step == Step::kAgain) return;
  if (step == Step::kDone) {
    state_ = State::kChallenge;
    return;
  }
  const int error = writer_.error();
  // A peer that does not accept this end's certificate says so after this end was done.
  if (tls_) reader_.read(io(), Preamble::kBytes);
  if (tls_ && tls_->settings_differ()) return differ(tls_->trouble());
  end(fmt::format("send: {}", errno_text(error)));
}

void ConnectingHandshake::receive_challenge() {
  Step step = reader_.read(io(), Preamble::kBytes);
  if (step == Step::kDone) {
    auto preamble = Preamble::decode(reader_.bytes().first<Preamble::kBytes>());
    if (!preamble) return differ("what answers there is not Tombolo; is the address another program's?");
    if (preamble->version != kProtocolVersion) return differ(other_version("the peer", preamble->version));
    if (preamble->size != Challenge::kBytes)
      return differ(
          fmt::format("the peer's challenge has {} bytes, not {}", preamble->size, Challenge::kBytes));
    step = reader_.read(io(), Challenge::kBytes);
  }
  switch (step) {
    case Step::kAgain:
      return;
    case Step::kEnded:
      return end("the peer closed it during the handshake");
    case Step::kError:
      if (tls_ && tls_->settings_differ()) return differ(tls_->trouble());
      return end(fmt::format("receive: {}", errno_text(reader_.error())));
    case Step::kDone:
      check_challenge();
  }
}

void ConnectingHandshake::check_challenge() {
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
    return differ(joins() ? gone() : "the peer says that it does not know this connection");
  }
  // A plain answer is not authenticated here, so nothing else in it is believed.
  if (answer_ == Answer::kPlain) return end("what was begun with TLS was answered in plain");
  switch (status) {
    case HandshakeStatus::kOk:
      break;
    case HandshakeStatus::kRefused:
      return differ("the peer refused the handshake's values; do both ends run the same build?");
    case HandshakeStatus::kNoCarrier:
      return differ(fmt::format("the peer cannot use {}", carrier_name(hello_.carrier)), Cause::kUnsupported);
    case HandshakeStatus::kOtherProcess:
      return differ(
          "another process answers there, not the one that is meant (did that one end, or does something "
          "lead its streams astray?)");
    default:
      return differ(fmt::format("the peer refused the handshake (status {})", static_cast<int>(status)));
  }
  writer_.set(Proof{proof_mac(local_->secret, hello_bytes_, challenge_, binding())}.encode());
  state_ = State::kProof;
}

void ConnectingHandshake::send_proof() {
  const Step step = writer_.write(io());
  if (step == Step::kAgain) return;
  if (step != Step::kDone) return end(fmt::format("send: {}", errno_text(writer_.error())));
  reader_ = sockets::MessageReader();
  state_ = State::kReply;
}

void ConnectingHandshake::receive_reply() {
  const Step step = reader_.read(io(), Reply::kBytes);
  if (step == Step::kAgain) return;
  if (step != Step::kDone) return end("the peer closed it at the end of the handshake");
  check_reply();
}

void ConnectingHandshake::check_reply() {
  const auto bytes = reader_.bytes();
  reply_ = Reply::decode(bytes);
  if (reply_.status == HandshakeStatus::kOtherSecret)
    return differ(fmt::format("the two ends hold different secrets; {}", local_->secret_hint));
  if (!equal(reply_.mac, reply_mac(local_->secret, hello_bytes_, challenge_, bytes, binding()))) {
    return differ(
        "what answers there did not prove that it holds the secret: its answer was forged, or altered on its "
        "way");
  }
  switch (reply_.status) {
    case HandshakeStatus::kOk:
      state_ = State::kReady;
      return;
    case HandshakeStatus::kGone:
      failure_ = Failure{gone(), true};
      return;
    default:
      end("the peer did not accept the stream");
  }
}

std::string ConnectingHandshake::gone() const {
  if (!joins()) return "the peer no longer has this connection";
  return hello_.epoch == 0 ? "the peer's listener is gone"
                           : "the peer's listener is gone, or has closed the connection already";
}

/// TLS names the listener or connection, and not yet the process. So the answer may be that of another one.
std::string ConnectingHandshake::gone_by_tls() const {
  return fmt::format(
      "who answers there to TLS does not know the {} that is meant: the peer has closed it, or has ended and "
      "another process uses its address and port now; see whether the peer's process still runs, and what "
      "its log says",
      joins() ? "listener" : "connection");
}

std::vector<std::byte> ConnectingHandshake::binding() const {
  if (!tls_) return {};
  const auto value = tls_->binding();
  return {value.begin(), value.end()};
}

short ConnectingHandshake::awaited_events() const noexcept {
  switch (state_) {
    case State::kSecuring:
      return static_cast<short>(tls_->pending() ? POLLIN | POLLOUT : POLLIN);
    case State::kHello:
    case State::kProof:
      return POLLOUT;
    case State::kChallenge:
    case State::kReply:
      return POLLIN;
    case State::kReady:
      break;
  }
  return 0;
}

}  // namespace tombolo::transport::bootstrap
