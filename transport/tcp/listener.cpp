#include "transport/tcp/listener.h"

#include <sys/epoll.h>
#include <sys/socket.h>

#include <algorithm>
#include <array>
#include <cerrno>

#include "base/units.h"
#include "transport/tcp/socket.h"

namespace tombolo::transport::tcp {
namespace {

using std::chrono::seconds;

// A handshake takes two round trips; one that takes longer than this is not coming.
constexpr Duration kHandshakeTime = seconds(10);
// From the first trusted stream of a connection to its last.
constexpr Duration kGroupTime = seconds(30);
// Strangers that say nothing cost a descriptor each: beyond so many, the oldest goes.
constexpr std::size_t kMostHalfOpen = 256;

}  // namespace

void prepare_stream(int socket, const Local& local, std::size_t streams) {
  // Only with several streams does it matter on which one the bytes wait.
  set_stream_options(socket, local.options.idle_timeout, streams > 1 ? static_cast<int>(kDefaultChunk) : 0);
}

TcpListener::TcpListener(std::shared_ptr<const Local> local, Endpoint endpoint)
    : local_(std::move(local)), endpoint_(std::move(endpoint)), next_key_(endpoint_.offers.size()) {
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

void TcpListener::append_wait_handles(std::vector<pollfd>& handles) const {
  handles.push_back({epoll_.get(), POLLIN, 0});
}

std::unique_ptr<Connection> TcpListener::accept() {
  std::array<epoll_event, 64> events;
  int count =
      complete_.empty() ? epoll_wait(epoll_.get(), events.data(), static_cast<int>(events.size()), 0) : 0;
  for (int i = 0; i < count; ++i) {
    std::uint64_t key = events[static_cast<std::size_t>(i)].data.u64;
    if (key < sockets_.size()) {
      take_new(key);
    } else if (auto half = half_open_.find(key); half != half_open_.end() && !advance(half->second)) {
      half_open_.erase(half);
    }
  }
  expire();
  if (complete_.empty()) return nullptr;
  Group group = std::move(complete_.front());
  complete_.pop_front();
  return finish(std::move(group));
}

void TcpListener::take_new(std::size_t offer) {
  for (;;) {
    SocketAddress peer;
    peer.length = sizeof peer.storage;
    Descriptor socket(accept4(sockets_[offer].get(), reinterpret_cast<sockaddr*>(&peer.storage), &peer.length,
                              SOCK_NONBLOCK | SOCK_CLOEXEC));
    if (!socket) {
      if (errno == EINTR || errno == ECONNABORTED) continue;
      if (errno != EAGAIN && errno != EWOULDBLOCK && errno != accept_error_) {
        // Once, not at every attempt: out of descriptors stays so for a while.
        accept_error_ = errno;
        local_->log.warning("accept on NIC {} ({}) failed: {} (errno {})", endpoint_.offers[offer].nic,
                            endpoint_.offers[offer].address, errno_text(accept_error_), accept_error_);
      }
      return;
    }
    accept_error_ = 0;
    if (half_open_.size() >= kMostHalfOpen) {
      drop(half_open_.begin()->second, "too many unfinished handshakes, this one is the oldest");
      half_open_.erase(half_open_.begin());
    }
    epoll_event event{};
    event.events = EPOLLIN;
    event.data.u64 = next_key_;
    if (epoll_ctl(epoll_.get(), EPOLL_CTL_ADD, socket.get(), &event) != 0) fail_errno(errno, "epoll_ctl");
    HalfOpen half;
    half.socket = std::move(socket);
    half.offer = offer;
    half.peer = to_text(peer);
    half.until = local_->clock->now() + kHandshakeTime;
    auto at = half_open_.emplace(next_key_++, std::move(half)).first;
    if (!advance(at->second)) half_open_.erase(at);
  }
}

bool TcpListener::drop(const HalfOpen& half, std::string_view why) {
  local_->log.warning("dropped a connection from {} to NIC {} ({}): {}", half.peer,
                      endpoint_.offers[half.offer].nic, endpoint_.offers[half.offer].address, why);
  return false;
}

bool TcpListener::advance_hello(HalfOpen& half) {
  int socket = half.socket.get();
  auto ended = [&](Step step) {
    if (step == Step::kAgain) return true;
    return drop(half, step == Step::kEnded ? "it closed before its hello was complete"
                                           : fmt::format("receive: {}", errno_text(half.reader.error())));
  };
  // The preamble first: a stranger that is told apart by its first bytes need not send the rest.
  if (Step step = half.reader.read(socket, Preamble::kBytes); step != Step::kDone) return ended(step);
  auto preamble = Preamble::decode(half.reader.bytes().first<Preamble::kBytes>());
  if (!preamble) return drop(half, "what it sent is no Tombolo handshake");
  Reply reply;
  reply.host = endpoint_.host;
  reply.nic = endpoint_.offers[half.offer].nic;
  if (preamble->version != kProtocolVersion || preamble->size != Hello::kBytes) {
    reply.status = HandshakeStatus::kOtherVersion;
    half.writer.set(reply.encode());
    half.writer.write(socket);
    // Closing with unread bytes would reset the stream and might overtake the reply.
    shutdown(socket, SHUT_WR);
    std::array<std::byte, 4096> rest;
    while (recv(socket, rest.data(), rest.size(), MSG_DONTWAIT) > 0) {
    }
    return drop(half, fmt::format("it speaks protocol version {}, this build {}", preamble->version,
                                  kProtocolVersion));
  }
  if (Step step = half.reader.read(socket, Hello::kBytes); step != Step::kDone) return ended(step);
  half.hello_bytes.assign(half.reader.bytes().begin(), half.reader.bytes().end());
  half.reader.clear();
  try {
    half.hello = Hello::decode(half.hello_bytes);
  } catch (const Error& error) {
    reply.status = HandshakeStatus::kRefused;
    half.writer.set(reply.encode());
    half.writer.write(socket);
    return drop(half, error.what());
  }
  random_bytes(reply.nonce);
  reply.mac = reply_mac(local_->secret, half.hello_bytes, reply.encode());
  half.reply_bytes = reply.encode();
  half.writer.set(half.reply_bytes);
  half.state = HalfOpen::State::kReply;
  return true;
}

bool TcpListener::advance(HalfOpen& half) {
  int socket = half.socket.get();
  if (half.state == HalfOpen::State::kHello) {
    if (!advance_hello(half)) return false;
    if (half.state == HalfOpen::State::kHello) return true;
  }
  if (half.state == HalfOpen::State::kReply) {
    // A fresh socket's buffer takes the reply whole; anything else is no honest peer.
    if (half.writer.write(socket) != Step::kDone) return drop(half, "it did not take the reply");
    half.state = HalfOpen::State::kFinish;
  }
  switch (half.reader.read(socket, Finish::kBytes)) {
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
    return drop(half, fmt::format("{} says that this end holds another secret (TOMBOLO_SECRET)",
                                  half.hello.host.empty() ? "it" : half.hello.host));
  }
  if (!equal(finish.mac, finish_mac(local_->secret, half.hello_bytes, half.reply_bytes))) {
    return drop(half, "it holds another secret (TOMBOLO_SECRET)");
  }
  trust(half);
  return false;
}

void TcpListener::trust(HalfOpen& half) {
  epoll_ctl(epoll_.get(), EPOLL_CTL_DEL, half.socket.get(), nullptr);
  prepare_stream(half.socket.get(), *local_, half.hello.streams);
  auto [at, fresh] = groups_.try_emplace(half.hello.connection);
  Group& group = at->second;
  if (fresh) {
    group.hello = half.hello;
    group.offer = half.offer;
    group.sockets.resize(half.hello.streams);
    group.missing = half.hello.streams;
    group.until = local_->clock->now() + kGroupTime;
  }
  if (group.sockets.size() != half.hello.streams || group.sockets[half.hello.stream] ||
      group.offer != half.offer) {
    drop(half, fmt::format("stream {} of {} does not fit the connection it claims to belong to",
                           half.hello.stream, half.hello.streams));
    return;
  }
  group.sockets[half.hello.stream] = std::move(half.socket);
  if (--group.missing == 0) {
    complete_.push_back(std::move(group));
    groups_.erase(at);
  }
}

void TcpListener::expire() {
  if (half_open_.empty() && groups_.empty()) return;
  TimePoint now = local_->clock->now();
  while (!half_open_.empty() && half_open_.begin()->second.until <= now) {
    drop(half_open_.begin()->second,
         fmt::format("no handshake within {}", format_seconds(to_seconds(kHandshakeTime))));
    half_open_.erase(half_open_.begin());
  }
  std::erase_if(groups_, [&](const auto& entry) {
    const Group& group = entry.second;
    if (group.until > now) return false;
    local_->log.warning("dropped a connection from {}: {} of its {} streams did not arrive within {}",
                        group.hello.host, group.missing, group.hello.streams,
                        format_seconds(to_seconds(kGroupTime)));
    return true;
  });
}

std::unique_ptr<Connection> TcpListener::finish(Group group) {
  const Offer& offer = endpoint_.offers[group.offer];
  Established made;
  made.label = group.hello.label;
  made.route.transport = "tcp";
  made.route.kind = group.hello.kind;
  made.route.emulated = group.hello.emulated;
  made.route.local_nic = offer.nic;
  made.route.peer_nic = group.hello.nic;
  made.route.peer_host = group.hello.host;
  made.route.peer_address = peer_text(group.sockets[0].get());
  made.route.reason = "chosen by the connecting end";
  made.chunk_bytes = chunk_of(local_->options, group.sockets.size());
  made.idle_timeout = local_->options.idle_timeout;
  made.limit = local_->limit_of(offer.nic);
  made.clock = local_->clock;
  made.log = local_->log;
  local_->log.info("accepted {} ({}) from {}: tcp over {}{}, {} -> {}, {} stream(s), label {}",
                   made.route.peer_host, made.route.peer_address, made.route.peer_nic,
                   topology::nic_kind_name(made.route.kind), made.route.emulated ? " (emulated)" : "",
                   made.route.peer_nic, offer.nic, group.sockets.size(), made.label);
  made.sockets = std::move(group.sockets);
  return std::make_unique<TcpConnection>(std::move(made));
}

}  // namespace tombolo::transport::tcp
