#include "transport/bootstrap/acceptor.h"

#include <sys/epoll.h>
#include <sys/socket.h>

#include <algorithm>
#include <array>
#include <cerrno>

#include "base/units.h"
#include "transport/bootstrap/socket.h"

namespace tombolo::transport::bootstrap {
namespace {

using std::chrono::seconds;

// How long a peer may take until its hello is complete. After that it has as long as its hello says, up to
// kMostPatience.
constexpr Duration kHelloTime = seconds(10);
constexpr Duration kMostPatience = seconds(600);
// Each unfinished handshake costs a descriptor. When there are more than this, the oldest is dropped, those
// without a hello before those with one. An honest peer tries again.
constexpr std::size_t kMostHalfOpen = 256;
// How long accepting pauses when the process is out of descriptors.
constexpr Duration kAcceptPause = std::chrono::milliseconds(100);

}  // namespace

Duration patience_of(const Hello& hello) {
  return std::min<Duration>(std::chrono::milliseconds(hello.patience_ms), kMostPatience);
}

Route route_of(const Acceptor& acceptor, const AuthenticatedStream& stream) {
  const Hello& hello = stream.hello;
  Route route;
  route.transport = carrier_name(hello.carrier);
  route.kind = hello.kind;
  route.emulated = hello.emulated;
  route.local_nic = acceptor.endpoint().offers[stream.offer].nic;
  route.peer_nic = hello.nic;
  route.peer_host = hello.host;
  route.peer_address = peer_text(stream.socket.get());
  route.reason = "chosen by the connecting end";
  if (stream.tls) {
    route.transport += "+tls";
    route.reason += fmt::format("; {}, {}", acceptor.local()->tls->description(), stream.tls->cipher());
  }
  return route;
}

Acceptor::Acceptor(std::shared_ptr<const Local> local, Endpoint self)
    : local_(std::move(local)), endpoint_(std::move(self)), next_key_(endpoint_.offers.size()) {
  epoll_ = Descriptor(epoll_create1(EPOLL_CLOEXEC));
  if (!epoll_) fail_errno(errno, "epoll_create1");
  for (Offer& offer : endpoint_.offers) {
    Descriptor socket = listen_on(offer.nic, offer.address, offer.port);
    epoll_event event{};
    event.events = EPOLLIN;
    event.data.u64 = sockets_.size();
    if (epoll_ctl(epoll_.get(), EPOLL_CTL_ADD, socket.get(), &event) != 0) fail_errno(errno, "epoll_ctl");
    sockets_.push_back(std::move(socket));
  }
}

std::uint16_t Acceptor::port_of(const std::string& address) const noexcept {
  for (const Offer& offer : endpoint_.offers)
    if (offer.address == address) return offer.port;
  return 0;
}

std::uint32_t Acceptor::open_listener(const std::shared_ptr<Inbox>& inbox) {
  const std::lock_guard lock(mutex_);
  std::erase_if(listeners_, [](const auto& entry) { return entry.second.expired(); });
  listeners_[next_listener_] = inbox;
  return next_listener_++;
}

void Acceptor::open_connection(const Nonce& connection, const std::shared_ptr<Inbox>& inbox) {
  const std::lock_guard lock(mutex_);
  connections_[connection] = inbox;
}

void Acceptor::close_connection(const Nonce& connection) noexcept {
  const std::lock_guard lock(mutex_);
  connections_.erase(connection);
  asked_until_ = local_->clock->now() + local_->idle_timeout;
}

bool Acceptor::may_be_asked() {
  const std::lock_guard lock(mutex_);
  return local_->clock->now() < asked_until_;
}

void Acceptor::progress() {
  const std::lock_guard lock(mutex_);
  if (paused_until_ != TimePoint{} && local_->clock->now() >= paused_until_) resume_accepting();
  std::array<epoll_event, 64> events;
  const int count = epoll_wait(epoll_.get(), events.data(), static_cast<int>(events.size()), 0);
  for (int i = 0; i < count; ++i) {
    std::uint64_t key = events[static_cast<std::size_t>(i)].data.u64;
    if (key < sockets_.size()) {
      take_new(key);
    } else if (auto half = half_open_.find(key); half != half_open_.end() && !advance(half->second)) {
      half_open_.erase(half);
    }
  }
  if (!half_open_.empty()) expire();
}

void Acceptor::take_new(std::size_t offer) {
  for (;;) {
    SocketAddress peer;
    peer.length = sizeof peer.storage;
    Descriptor socket(accept4(sockets_[offer].get(), reinterpret_cast<sockaddr*>(&peer.storage), &peer.length,
                              SOCK_NONBLOCK | SOCK_CLOEXEC));
    if (!socket) {
      const int error = errno;
      if (error == EINTR || error == ECONNABORTED) continue;
      if (error == EAGAIN || error == EWOULDBLOCK) return;
      if (error != accept_error_) {
        // It is logged once and not at every attempt, because a lack of descriptors lasts for a while.
        accept_error_ = error;
        local_->log.warning("accept on NIC {} ({}) failed: {} (errno {})", endpoint_.offers[offer].nic,
                            endpoint_.offers[offer].address, errno_text(accept_error_), accept_error_);
      }
      paused_until_ = local_->clock->now() + kAcceptPause;
      for (const Descriptor& one : sockets_) epoll_ctl(epoll_.get(), EPOLL_CTL_DEL, one.get(), nullptr);
      return;
    }
    accept_error_ = 0;
    make_room();
    epoll_event event{};
    event.events = EPOLLIN;
    event.data.u64 = next_key_;
    if (epoll_ctl(epoll_.get(), EPOLL_CTL_ADD, socket.get(), &event) != 0) fail_errno(errno, "epoll_ctl");
    HalfOpen half;
    half.socket = std::move(socket);
    half.offer = offer;
    half.peer = to_text(peer);
    half.until = local_->clock->now() + kHelloTime;
    auto at = half_open_.emplace(next_key_++, std::move(half)).first;
    if (!advance(at->second)) half_open_.erase(at);
  }
}

void Acceptor::resume_accepting() {
  paused_until_ = TimePoint{};
  for (std::size_t offer = 0; offer < sockets_.size(); ++offer) {
    epoll_event event{};
    event.events = EPOLLIN;
    event.data.u64 = offer;
    if (epoll_ctl(epoll_.get(), EPOLL_CTL_ADD, sockets_[offer].get(), &event) != 0)
      fail_errno(errno, "epoll_ctl");
  }
}

void Acceptor::make_room() {
  if (half_open_.size() < kMostHalfOpen) return;
  auto oldest = std::ranges::find_if(
      half_open_, [](const auto& entry) { return entry.second.state <= HalfOpen::State::kHello; });
  if (oldest == half_open_.end()) oldest = half_open_.begin();
  drop(oldest->second, "too many unfinished handshakes, this one is the oldest");
  half_open_.erase(oldest);
}

bool Acceptor::drop(const HalfOpen& half, std::string_view why) {
  // Anyone who reaches the port can cause this line. How far the handshake came tells strangers from peers
  // with a wrong setting, whose lines are not to be lost among those of strangers.
  drop_warnings_.try_emplace(half.state, *local_->clock)
      .first->second.write(local_->log, "dropped a connection from {} to NIC {} ({}): {}", half.peer,
                           endpoint_.offers[half.offer].nic, endpoint_.offers[half.offer].address, why);
  return false;
}

std::vector<std::byte> Acceptor::HalfOpen::binding() const {
  if (!tls) return {};
  const auto value = tls->binding();
  return {value.begin(), value.end()};
}

/// Tells the peer why, and drops it.
bool Acceptor::refuse(HalfOpen& half, HandshakeStatus status, std::string_view why) {
  Reply reply;
  reply.status = status;
  half.writer.set(reply.encode());
  half.writer.write(half.io());
  // Closing with unread bytes would reset the stream and might overtake the reply.
  shutdown(half.socket.get(), SHUT_WR);
  std::array<std::byte, 4096> rest;
  while (recv(half.socket.get(), rest.data(), rest.size(), MSG_DONTWAIT) > 0) {
  }
  return drop(half, why);
}

bool Acceptor::refuse_tls(HalfOpen& half) {
  return refuse(half, HandshakeStatus::kTlsOff,
                fmt::format("it asks for TLS, TOMBOLO_TLS is {} here: set it to the same on every rank",
                            name_of(local_->tls_use())));
}

/// Finds out by the first byte whether the peer begins TLS, and runs the TLS handshake if so. True while all
/// goes well.
bool Acceptor::secure(HalfOpen& half) {
  if (half.state == HalfOpen::State::kFirst) {
    std::byte first{};
    const ssize_t got = recv(half.socket.get(), &first, sizeof first, MSG_PEEK | MSG_DONTWAIT);
    if (got < 0) return true;
    half.state = HalfOpen::State::kHello;
    if (got == 0 || first != kTlsHandshakeByte) return true;  // how it ends is seen there
    if (!local_->tls) return refuse_tls(half);
    half.tls = local_->tls->begin(half.socket.get(), false);
    half.state = HalfOpen::State::kSecuring;
  }
  switch (half.tls->handshake()) {
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
  shutdown(half.socket.get(), SHUT_WR);
  return drop(half, fmt::format("TLS handshake: {}", half.tls->trouble()));
}

bool Acceptor::advance_hello(HalfOpen& half) {
  const StreamIo io = half.io();
  auto ended = [&](Step step) {
    if (step == Step::kAgain) return true;
    if (step == Step::kError && half.tls && !half.tls->trouble().empty())
      return drop(half, half.tls->trouble());
    return drop(half, step == Step::kEnded ? "it closed before its hello was complete"
                                           : fmt::format("receive: {}", errno_text(half.reader.error())));
  };
  // The preamble is read first: a peer that speaks another protocol is recognized by it, whether it sends
  // more or not.
  if (Step step = half.reader.read(io, Preamble::kBytes); step != Step::kDone) return ended(step);
  auto preamble = Preamble::decode(half.reader.bytes().first<Preamble::kBytes>());
  if (!preamble) return drop(half, "what it sent is no Tombolo handshake");
  Reply reply;
  reply.host = endpoint_.host;
  reply.nic = endpoint_.offers[half.offer].nic;
  if (preamble->version != kProtocolVersion || preamble->size != Hello::kBytes) {
    return refuse(
        half, HandshakeStatus::kOtherVersion,
        fmt::format("it speaks protocol version {}, this build {}", preamble->version, kProtocolVersion));
  }
  if (Step step = half.reader.read(io, Hello::kBytes); step != Step::kDone) return ended(step);
  half.hello_bytes.assign(half.reader.bytes().begin(), half.reader.bytes().end());
  half.reader.clear();
  try {
    half.hello = Hello::decode(half.hello_bytes);
  } catch (const Error& error) {
    return refuse(half, HandshakeStatus::kRefused, error.what());
  }
  const Hello& hello = half.hello;
  const bool wants_tls = local_->wants_tls(hello.carrier, hello.cluster);
  if (half.tls && !wants_tls) return refuse_tls(half);
  if ((!half.tls && wants_tls) || !local_->may_carry(hello.carrier, hello.cluster)) {
    return refuse(half, HandshakeStatus::kTlsWanted,
                  fmt::format("it comes without TLS (by {}), TOMBOLO_TLS is {} here: set it to the same on "
                              "every rank",
                              carrier_name(hello.carrier), name_of(local_->tls_use())));
  }
  half.until = local_->clock->now() + patience_of(half.hello);
  if (local_->backend_of(half.hello.carrier) == nullptr) {
    return refuse(
        half, HandshakeStatus::kNoCarrier,
        fmt::format("it asks for {}, which this process cannot use", carrier_name(half.hello.carrier)));
  }
  random_bytes(reply.nonce);
  reply.mac = reply_mac(local_->secret, half.hello_bytes, reply.encode(), half.binding());
  half.reply_bytes = reply.encode();
  half.writer.set(half.reply_bytes);
  half.state = HalfOpen::State::kReply;
  return true;
}

bool Acceptor::advance(HalfOpen& half) {
  if (half.state <= HalfOpen::State::kSecuring) {
    if (!secure(half)) return false;
    if (half.state <= HalfOpen::State::kSecuring) return true;
  }
  const StreamIo io = half.io();
  if (half.state == HalfOpen::State::kHello) {
    if (!advance_hello(half)) return false;
    if (half.state == HalfOpen::State::kHello) return true;
  }
  if (half.state == HalfOpen::State::kReply) {
    // A fresh socket's buffer takes the reply whole; anything else is no honest peer.
    if (half.writer.write(io) != Step::kDone) return drop(half, "it did not take the reply");
    half.state = HalfOpen::State::kFinish;
  }
  switch (half.reader.read(io, Finish::kBytes)) {
    case Step::kAgain:
      return true;
    case Step::kEnded:
      return drop(half, "it closed before it proved to hold the secret");
    case Step::kError:
      return drop(half, fmt::format("receive: {}", errno_text(half.reader.error())));
    case Step::kDone:
      break;
  }
  Finish finish = Finish::decode(half.reader.bytes());
  if (finish.status != HandshakeStatus::kOk) {
    return drop(half, fmt::format("{} says that this end holds another secret; {}",
                                  half.hello.host.empty() ? "it" : half.hello.host, local_->secret_hint));
  }
  if (!equal(finish.mac, finish_mac(local_->secret, half.hello_bytes, half.reply_bytes, half.binding()))) {
    return drop(half, fmt::format("it holds another secret; {}", local_->secret_hint));
  }
  trust(half);
  return false;
}

std::shared_ptr<Inbox> Acceptor::inbox_for(const Hello& hello) {
  if (hello.purpose == Purpose::kJoin) {
    auto found = listeners_.find(hello.listener);
    return found == listeners_.end() ? nullptr : found->second.lock();
  }
  auto found = connections_.find(hello.connection);
  return found == connections_.end() ? nullptr : found->second.lock();
}

bool Acceptor::give_verdict(HalfOpen& half, HandshakeStatus verdict) {
  static_assert(sizeof verdict == kVerdictBytes);
  half.writer.set({static_cast<std::byte>(verdict)});
  // The buffer is empty: the peer has read the reply, or it could not have finished.
  if (half.writer.write(half.io()) == Step::kDone) return true;
  return drop(half, fmt::format("send: {}", errno_text(half.writer.error())));
}

void Acceptor::trust(HalfOpen& half) {
  epoll_ctl(epoll_.get(), EPOLL_CTL_DEL, half.socket.get(), nullptr);
  auto inbox = inbox_for(half.hello);
  if (!inbox) {
    local_->log.info("{} asked for a {} that is gone", half.peer,
                     half.hello.purpose == Purpose::kJoin ? "listener" : "connection");
    give_verdict(half, HandshakeStatus::kGone);
    return;
  }
  if (half.hello.purpose == Purpose::kAsk) {
    give_verdict(half, HandshakeStatus::kOk);
    return;
  }
  set_stream_options(half.socket.get(), local_->idle_timeout);
  local_->backend_of(half.hello.carrier)
      ->prepare_stream(half.socket.get(), endpoint_.offers[half.offer].nic, half.hello.streams);
  if (give_verdict(half, HandshakeStatus::kOk)) {
    inbox->put({std::move(half.socket), std::move(half.hello), half.offer, std::move(half.peer),
                std::move(half.tls)});
  }
}

void Acceptor::expire() {
  TimePoint now = local_->clock->now();
  std::erase_if(half_open_, [&](const auto& entry) {
    return entry.second.until <= now && !drop(entry.second, "its handshake took too long");
  });
}

}  // namespace tombolo::transport::bootstrap
