// How a stream that comes with TLS gets the keys of whom it is for, before the handshake proper.
#include <sys/socket.h>

#include "transport/bootstrap/destination.h"
#include "transport/bootstrap/half_open_streams.h"
#include "transport/kernel.h"
#include "transport/sockets/tls.h"

namespace tombolo::transport::bootstrap {

using sockets::Step;

std::vector<std::byte> HalfOpenStreams::HalfOpen::binding() const {
  if (!tls) return {};
  const auto value = tls->binding();
  return {value.begin(), value.end()};
}

bool HalfOpenStreams::refuse_tls(HalfOpen& half) {
  return refuse(half, HandshakeStatus::kTlsOff,
                fmt::format("it asks for TLS, TOMBOLO_TLS is {} here: set it to the same on every rank",
                            name_of(half.end ? half.local().tls_use() : TlsUse::kOff)));
}

/// Finds out by the first byte whether the peer begins TLS, and runs the TLS handshake if so. True while all
/// goes well.
bool HalfOpenStreams::secure(HalfOpen& half) {
  if (half.state == HalfOpen::State::kFirst) {
    std::byte first{};
    const ssize_t got = kernel().recv(half.socket.get(), &first, sizeof first, MSG_PEEK | MSG_DONTWAIT);
    if (got < 0) return true;
    half.state = HalfOpen::State::kHello;
    if (got == 0 || first != sockets::kTlsHandshakeByte) return true;  // how it ends is seen there
    const ListeningSocket* from = sockets_.find(half.door);
    const auto tls = from != nullptr ? from->tls() : nullptr;
    if (!tls) return refuse_tls(half);
    half.tls = tls->begin(half.socket.get(), false);
    half.tls->wait_for_keys();
    half.state = HalfOpen::State::kSecuring;
  }
  Step step = half.tls->handshake();
  if (step == Step::kAgain && half.tls->server_name()) {
    if (!half.end && !choose_keys(half)) return false;
    step = half.tls->handshake();
  }
  switch (step) {
    case Step::kDone:
      half.state = HalfOpen::State::kHello;
      return true;
    case Step::kAgain:
      // A fresh socket's buffer takes the whole answer; where it does not, the peer is not honest.
      return !half.tls->pending() || drop(half, "it did not take the TLS handshake's answer");
    case Step::kEnded:
      return drop(half, "it closed during the TLS handshake");
    case Step::kError:
      break;
  }
  kernel().shutdown(half.socket.get(), SHUT_WR);
  return drop(half, fmt::format("TLS handshake: {}", half.tls->trouble()));
}

/// Goes on with the keys of the router that the TLS session is for.
bool HalfOpenStreams::choose_keys(HalfOpen& half) {
  const auto to = Destination::parse(*half.tls->server_name());
  // What refuses it answers in plain, since no session comes about.
  if (!to) {
    half.tls.reset();
    return refuse(half, HandshakeStatus::kOtherVersion,
                  fmt::format("it begins TLS without naming a listener or connection, as builds before "
                              "protocol version {} do; use one version on every host",
                              kProtocolVersion));
  }
  if (!meet(half, *to)) {
    half.tls.reset();
    return refuse(half, HandshakeStatus::kGone, "it asks by TLS for what is not here, or no more");
  }
  if (!half.local().tls) {
    half.tls.reset();
    return refuse_tls(half);
  }
  half.tls->use(half.local().tls);
  return true;
}

}  // namespace tombolo::transport::bootstrap
