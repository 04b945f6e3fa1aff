#include "transport/bootstrap/half_open_streams.h"

#include <sys/epoll.h>
#include <sys/socket.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <exception>
#include <utility>

#include "base/error.h"
#include "base/units.h"
#include "transport/backend.h"
#include "transport/bootstrap/destination.h"
#include "transport/kernel.h"
#include "transport/sockets/socket.h"
#include "transport/sockets/tls.h"

namespace tombolo::transport::bootstrap {

using sockets::Step;

namespace {

// How long accepting pauses when the process is out of descriptors.
constexpr Duration kAcceptPause = std::chrono::milliseconds(100);

constexpr std::string_view kNoException = "something was thrown that is no std::exception";

/// A line for which there is no memory, or whose sink throws, is missing. Nothing else changes by that: other
/// streams, and other routers' logs, are concerned too.
template <typename Write>
void say(const Write& write) noexcept {
  try {
    write();
  } catch (...) {  // whatever a caller's sink throws
  }
}

}  // namespace

Duration patience_of(const Hello& hello) {
  return std::min<Duration>(std::chrono::milliseconds(hello.patience_ms), kMostPatience);
}

HalfOpenStreams::HalfOpenStreams(std::uint64_t process, Registrations& registrations,
                                 sockets::ClosingSockets& refused, const Clock& clock)
    : process_(process),
      registrations_(registrations),
      refused_(refused),
      clock_(&clock),
      epoll_(kernel().epoll_create1(EPOLL_CLOEXEC)),
      sockets_(epoll_.get()),
      accept_warning_(clock),
      lost_warning_(clock) {
  if (!epoll_) fail_errno(errno, "epoll_create1");
}

std::shared_ptr<const LocalEnd> HalfOpenStreams::open(std::shared_ptr<const Local> local, Endpoint endpoint) {
  const std::lock_guard lock(mutex_);
  return sockets_.open(std::move(local), std::move(endpoint), next_key_);
}

void HalfOpenStreams::leave(const LocalEnd& end) noexcept {
  const std::lock_guard lock(mutex_);
  sockets_.leave(end);
  // Those that have not said whom they want came in at a socket that may be gone now, and with it whom they
  // could want.
  std::erase_if(half_open_, [&](const auto& entry) {
    const HalfOpen& half = entry.second;
    return half.end.get() == &end || (!half.end && sockets_.find(half.door) == nullptr);
  });
}

bool HalfOpenStreams::progress() noexcept {
  const std::unique_lock lock(mutex_, std::try_to_lock);
  if (!lock) return false;
  try {
    move_all();
  } catch (...) {
    // Memory is short, also for saying so; the next call goes on.
  }
  return std::exchange(refused_some_, false);
}

void HalfOpenStreams::move_all() {
  sockets_.resume(clock_->now(), kAcceptPause);
  std::array<epoll_event, 64> events;
  const int count = kernel().epoll_wait(epoll_.get(), events.data(), static_cast<int>(events.size()), 0);
  for (int i = 0; i < count; ++i) {
    std::uint64_t key = events[static_cast<std::size_t>(i)].data.u64;
    if (auto half = half_open_.find(key); half == half_open_.end()) {
      take_new(key);
    } else if (!advance_safely(half->second)) {
      half_open_.erase(half);
    }
  }
  if (!half_open_.empty()) expire();
}

void HalfOpenStreams::take_new(std::uint64_t door) {
  const ListeningSocket* from = sockets_.find(door);
  for (int i = 0; from != nullptr && i < kMostAccepted; ++i) {
    try {
      if (!take_one(door, *from)) return;
    } catch (const std::exception& error) {
      note_lost(*from, error.what());
    } catch (...) {
      note_lost(*from, kNoException);
    }
  }
}

/// Whoever connects while memory is short causes this line.
void HalfOpenStreams::note_lost(const ListeningSocket& from, std::string_view why) noexcept {
  say([&] {
    lost_warning_.write(from.log(), "dropped a connection to NIC {} ({}): {}", from.nic, from.address, why);
  });
}

/// False where no other waits, or none can be taken now.
bool HalfOpenStreams::take_one(std::uint64_t door, const ListeningSocket& from) {
  sockets::SocketAddress peer;
  peer.length = sizeof peer.storage;
  Descriptor socket(kernel().accept4(from.socket.get(), reinterpret_cast<sockaddr*>(&peer.storage),
                                     &peer.length, SOCK_NONBLOCK | SOCK_CLOEXEC));
  if (!socket) {
    const int error = errno;
    if (error == EINTR || error == ECONNABORTED) return true;
    if (error == EAGAIN || error == EWOULDBLOCK) return false;
    if (std::exchange(accept_error_, error) != error) {
      // It is logged once and not at every attempt, because a lack of descriptors lasts for a while.
      // Strangers who take the last one again and again make it come and go.
      say([&] {
        accept_warning_.write(from.log(), "accept on NIC {} ({}) failed: {} (errno {})", from.nic,
                              from.address, errno_text(error), error);
      });
    }
    sockets_.pause(clock_->now() + kAcceptPause);
    return false;
  }
  accept_error_ = 0;
  make_room();
  HalfOpen half;
  half.nic = from.nic;
  half.address = from.address;
  half.nth = from.nth;
  half.door = door;
  half.peer = sockets::to_text(peer);
  half.until = clock_->now() + kHelloTime;
  epoll_event event{};
  event.events = EPOLLIN;
  event.data.u64 = next_key_;
  if (kernel().epoll_ctl(epoll_.get(), EPOLL_CTL_ADD, socket.get(), &event) != 0) {
    const int error = errno;
    drop(half, fmt::format("epoll_ctl: {} (errno {})", errno_text(error), error));
    return true;
  }
  half.socket = std::move(socket);
  auto at = half_open_.emplace(next_key_++, std::move(half)).first;
  if (!advance_safely(at->second)) half_open_.erase(at);
  return true;
}

void HalfOpenStreams::make_room() {
  if (half_open_.size() < kMost) return;
  auto oldest = std::ranges::find_if(
      half_open_, [](const auto& entry) { return entry.second.state <= HalfOpen::State::kHello; });
  if (oldest == half_open_.end()) oldest = half_open_.begin();
  drop(oldest->second, "too many unfinished handshakes, this one is the oldest");
  half_open_.erase(oldest);
}

bool HalfOpenStreams::drop(const HalfOpen& half, std::string_view why) noexcept {
  // Anyone who reaches the port can cause this line. How far the handshake came tells strangers from peers
  // with a wrong setting, whose lines are not to be lost among those of strangers.
  say([&] {
    drop_warnings_.try_emplace(half.state, *clock_)
        .first->second.write(log_of(half), "dropped a connection from {} to NIC {} ({}): {}", half.peer,
                             half.nic, half.address, why);
  });
  return false;
}

/// Of the router that it is for. One that has not said that is logged by a router that listens there, if
/// there still is one.
const Log& HalfOpenStreams::log_of(const HalfOpen& half) const noexcept {
  static const Log silent;
  if (half.end) return half.local().log;
  const ListeningSocket* from = sockets_.find(half.door);
  return from != nullptr ? from->log() : silent;
}

/// Tells a peer that has proved nothing why, and drops it.
bool HalfOpenStreams::refuse(HalfOpen& half, HandshakeStatus status, std::string_view why) {
  Challenge challenge;
  challenge.status = status;
  return send_off(half, challenge.encode(), why);
}

bool HalfOpenStreams::send_off(HalfOpen& half, std::vector<std::byte> answer, std::string_view why) {
  half.writer.set(std::move(answer));
  half.writer.write(half.io());
  drop(half, why);
  // Closing with unread bytes would reset the stream and might overtake the answer.
  kernel().epoll_ctl(epoll_.get(), EPOLL_CTL_DEL, half.socket.get(), nullptr);
  half.tls.reset();
  refused_.add(std::move(half.socket));
  refused_some_ = true;
  return false;
}

/// Finds whom it is for. False where that is not here, or not to be had over the NIC on which it came in.
bool HalfOpenStreams::meet(HalfOpen& half, const Destination& to) {
  const Registration found = registrations_.find(to);
  const auto offer = found.end ? found.end->offer_at(half.address, half.nth) : std::nullopt;
  if (!offer) return false;
  // The session has the keys of another one.
  if (half.tls && half.end && half.end->local->tls != found.end->local->tls) return false;
  half.end = found.end;
  half.offer = *offer;
  half.nic = half.end->endpoint.offers[*offer].nic;
  return true;
}

bool HalfOpenStreams::advance_hello(HalfOpen& half) {
  const sockets::StreamIo io = half.io();
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
  if (preamble->version != kProtocolVersion)
    return refuse(half, HandshakeStatus::kOtherVersion, other_version("it", preamble->version));
  if (preamble->size != Hello::kBytes) {
    return refuse(half, HandshakeStatus::kRefused,
                  fmt::format("its hello has {} bytes, not {}", preamble->size, Hello::kBytes));
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
  if (hello.process != process_) {
    return refuse(half, HandshakeStatus::kOtherProcess,
                  "it means another process, whose address this one has now or whose streams were led here");
  }
  if (!meet(half, Destination::of(hello))) {
    return refuse(half, HandshakeStatus::kGone,
                  fmt::format("it asks for a {} that is not here, or no more",
                              hello.purpose == Purpose::kJoin ? "listener" : "connection"));
  }
  const Local& local = half.local();
  const bool wants_tls = local.wants_tls(hello.carrier, hello.cluster);
  if (half.tls && !wants_tls) return refuse_tls(half);
  if ((!half.tls && wants_tls) || !local.may_carry(hello.carrier, hello.cluster)) {
    return refuse(half, HandshakeStatus::kTlsWanted,
                  fmt::format("it comes without TLS (by {}), TOMBOLO_TLS is {} here: set it to the same on "
                              "every rank",
                              carrier_name(hello.carrier), name_of(local.tls_use())));
  }
  half.until = clock_->now() + patience_of(half.hello);
  if (local.backend_of(half.hello.carrier) == nullptr && !half.end->answers_only) {
    return refuse(
        half, HandshakeStatus::kNoCarrier,
        fmt::format("it asks for {}, which this process cannot use", carrier_name(half.hello.carrier)));
  }
  Challenge challenge;
  random_bytes(challenge.nonce);
  half.challenge_bytes = challenge.encode();
  half.writer.set(half.challenge_bytes);
  half.state = HalfOpen::State::kChallenge;
  return true;
}

/// Whatever goes wrong concerns that stream alone.
bool HalfOpenStreams::advance_safely(HalfOpen& half) {
  try {
    return advance(half);
  } catch (const std::exception& error) {
    return drop(half, error.what());
  } catch (...) {
    return drop(half, kNoException);
  }
}

bool HalfOpenStreams::advance(HalfOpen& half) {
  if (half.state <= HalfOpen::State::kSecuring) {
    if (!secure(half)) return false;
    if (half.state <= HalfOpen::State::kSecuring) return true;
  }
  const sockets::StreamIo io = half.io();
  if (half.state == HalfOpen::State::kHello) {
    if (!advance_hello(half)) return false;
    if (half.state == HalfOpen::State::kHello) return true;
  }
  if (half.state == HalfOpen::State::kChallenge) {
    // A fresh socket's buffer takes the challenge whole; anything else is no honest peer.
    if (half.writer.write(io) != Step::kDone) return drop(half, "it did not take the challenge");
    half.state = HalfOpen::State::kProof;
  }
  switch (half.reader.read(io, Proof::kBytes)) {
    case Step::kAgain:
      return true;
    case Step::kEnded:
      return drop(half, "it closed before it proved to hold the secret");
    case Step::kError:
      return drop(half, fmt::format("receive: {}", errno_text(half.reader.error())));
    case Step::kDone:
      break;
  }
  if (check_proof(half)) trust(half);
  return false;
}

bool HalfOpenStreams::check_proof(HalfOpen& half) {
  const Proof proof = Proof::decode(half.reader.bytes());
  const Local& local = half.local();
  if (equal(proof.mac, proof_mac(local.secret, half.hello_bytes, half.challenge_bytes, half.binding())))
    return true;
  // Without a MAC: whatever depends on the secret would let a stranger test its guesses.
  Reply reply;
  reply.status = HandshakeStatus::kOtherSecret;
  return send_off(half, reply.encode(), fmt::format("it holds another secret; {}", local.secret_hint));
}

bool HalfOpenStreams::give_reply(HalfOpen& half, HandshakeStatus status, std::uint32_t legs_listener) {
  Reply reply;
  reply.status = status;
  reply.host = half.end->endpoint.host;
  reply.nic = half.nic;
  reply.resumable = half.hello.resumable;
  reply.legs_listener = legs_listener;
  reply.mac =
      reply_mac(half.local().secret, half.hello_bytes, half.challenge_bytes, reply.encode(), half.binding());
  half.writer.set(reply.encode());
  // The buffer is empty: the peer has read the challenge, or it could not have proved anything.
  if (half.writer.write(half.io()) == Step::kDone) return true;
  return drop(half, fmt::format("send: {}", errno_text(half.writer.error())));
}

void HalfOpenStreams::trust(HalfOpen& half) {
  kernel().epoll_ctl(epoll_.get(), EPOLL_CTL_DEL, half.socket.get(), nullptr);
  const Registration found = registrations_.find(Destination::of(half.hello));
  if (!found.inbox || found.end != half.end) {
    say([&] {
      half.local().log.info("{} asked for a {} that is gone", half.peer,
                            half.hello.purpose == Purpose::kJoin ? "listener" : "connection");
    });
    give_reply(half, HandshakeStatus::kGone);
    return;
  }
  if (half.hello.purpose == Purpose::kAsk) {
    give_reply(half, HandshakeStatus::kOk);
    return;
  }
  const Backend& backend = *half.local().backend_of(half.hello.carrier);
  half.hello.resumable =
      half.hello.resumable && half.local().failover && backend.resumes() != Backend::Resumes::kNever;
  sockets::set_stream_options(half.socket.get(), half.local().idle_timeout);
  sockets::set_traffic_class(half.socket.get(), half.local().traffic_class);
  backend.prepare_stream(half.socket.get(), half.nic, half.hello.streams);
  // The peer knows whereto its next leg goes from the moment it is connected; and a leg knows it already.
  ReservedListener legs;
  // Where several streams make a connection, which are answered apart, it hears it from the first record.
  if (half.hello.resumable && !found.for_legs && backend.resumes() == Backend::Resumes::kAlways)
    legs = registrations_.reserve_for_legs(half.end);
  if (give_reply(half, HandshakeStatus::kOk, found.for_legs ? half.hello.listener : legs.number)) {
    found.inbox->put({std::move(half.socket), std::move(half.hello), half.offer, std::move(half.peer),
                      std::move(half.tls), std::move(legs)});
  }
}

void HalfOpenStreams::expire() {
  const TimePoint now = clock_->now();
  std::erase_if(half_open_, [&](const auto& entry) {
    return entry.second.until <= now && !drop(entry.second, "its handshake took too long");
  });
}

}  // namespace tombolo::transport::bootstrap
