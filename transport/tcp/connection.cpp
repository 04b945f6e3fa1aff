#include "transport/tcp/connection.h"

#include <linux/sockios.h>
#include <sys/epoll.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <sys/timerfd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <limits>

#include "base/units.h"
#include "transport/tcp/socket.h"

namespace tombolo::transport::tcp {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;

constexpr std::size_t kNoLimit = std::numeric_limits<std::size_t>::max();
// One call moves at most so much each way: about half a millisecond's work on loopback, after which the other
// direction and other connections get their turn.
constexpr std::size_t kMostPerPass = 2 * kMiB;
// With several streams, what one stream takes on before it has written it: small, so that a slow stream holds
// little back, yet one write's worth.
constexpr std::size_t kBacklogPerStream = 256 * 1024;
// A connection that only sends looks for the peer's end once in so many tests.
constexpr unsigned kReadsToSkip = 64;
// How often a connection without progress asks the kernel whether the peer's host still answers.
constexpr Duration kCheckEvery = seconds(1);
// A stream ended without a goodbye: so long the others may still bring what was sent before.
constexpr Duration kTornGrace = milliseconds(500);
// A live host whose process takes nothing: so many idle timeouts, since it may compute for long.
constexpr int kStalledFactor = 10;
// How long closing waits for the peer's kernel to acknowledge. Afterwards this end's kernel still delivers on
// its own, unless the peer sends something that nobody will read.
constexpr Duration kLinger = milliseconds(250);

std::vector<int> numbers_of(const std::vector<Descriptor>& sockets) {
  std::vector<int> numbers;
  for (const auto& socket : sockets) numbers.push_back(socket.get());
  return numbers;
}

std::string describe(const Established& from) {
  const Route& route = from.route;
  return fmt::format("tcp connection to {}{}host {} (NIC {} -> {} {})", from.peer_name,
                     from.peer_name.empty() ? "" : " on ", route.peer_host.empty() ? "?" : route.peer_host,
                     route.local_nic, route.peer_nic.empty() ? "?" : route.peer_nic, route.peer_address);
}

}  // namespace

TcpConnection::TcpConnection(Established from)
    : sockets_(std::move(from.sockets)),
      fds_(numbers_of(sockets_)),
      ready_(sockets_.size()),
      label_(from.label),
      route_(from.route),
      description_(describe(from)),
      idle_timeout_(from.idle_timeout),
      limit_(std::move(from.limit)),
      clock_(from.clock),
      log_(from.log),
      sender_(fds_, from.chunk_bytes,
              fds_.size() == 1 ? kNoLimit : std::min(kBacklogPerStream, from.chunk_bytes)),
      receiver_(fds_) {
  if (fds_.size() > 1) {
    epoll_ = Descriptor(epoll_create1(EPOLL_CLOEXEC));
    if (!epoll_) fail_errno(errno, "epoll_create1");
    for (std::size_t i = 0; i < fds_.size(); ++i) {
      epoll_event event{};
      event.events = EPOLLIN | EPOLLOUT | EPOLLRDHUP | EPOLLET;
      event.data.u64 = i;
      if (epoll_ctl(epoll_.get(), EPOLL_CTL_ADD, fds_[i], &event) != 0) fail_errno(errno, "epoll_ctl");
    }
  }
  if (limit_) {
    timer_ = Descriptor(timerfd_create(CLOCK_MONOTONIC, TFD_NONBLOCK | TFD_CLOEXEC));
    if (!timer_) fail_errno(errno, "timerfd_create");
  }
}

TcpConnection::~TcpConnection() {
  if (!error_) {
    say_goodbye({FrameType::kGoodbye, GoodbyeReason::kClosed, 0, 0, 0, 0});
    linger();
  }
}

Request* TcpConnection::post_send(std::span<const std::byte> data, Memory*) noexcept {
  if (!error_ && !sender_.can_post()) return nullptr;
  // Only read from; the common request type holds a plain pointer.
  PostedRequest* request = sends_.take(const_cast<std::byte*>(data.data()), data.size());
  if (request == nullptr) return nullptr;
  if (error_) return request;  // to fail when tested
  // Nothing is written yet: what is posted until the next test goes out with one system call.
  sender_.post(request);
  fresh_send_ = true;
  return request;
}

Request* TcpConnection::post_receive(std::span<std::byte> buffer, Memory*) noexcept {
  if (!error_ && !receiver_.can_post()) return nullptr;
  PostedRequest* request = receives_.take(buffer.data(), buffer.size());
  if (request == nullptr || error_) return request;
  if (receiver_.post(request)) {
    moved_ = true;
    check_fault();
  }
  return request;
}

Outcome TcpConnection::test(Request* base, std::size_t& bytes) noexcept {
  auto* request = static_cast<PostedRequest*>(base);
  auto done = [&] { return request->state == PostedRequest::State::kDone; };
  if (!done() && !error_) {
    if (request->is_send) {
      bool moved = send_all();
      if (!done() && !error_) {
        // Without posted receives only the peer's end could come; look for it now and then.
        if (receiver_.pending() || ++skipped_reads_ >= kReadsToSkip) {
          skipped_reads_ = 0;
          moved |= receive_all();
        }
        if (!moved && !error_) check_idle();
      }
    } else {
      bool moved = fresh_send_ || sender_.pending() ? send_all() : false;
      if (!error_) moved |= receive_all();
      if (!moved && !error_) check_idle();
    }
  }
  if (done()) {
    bytes = request->moved;
    (request->is_send ? sends_ : receives_).put(request);
    return Outcome::kDone;
  }
  if (!error_) return Outcome::kPending;
  bytes = 0;
  (request->is_send ? sends_ : receives_).put(request);
  return Outcome::kFailed;
}

bool TcpConnection::progress() noexcept {
  if (error_) return false;
  bool moved = sender_.pending() && send_all();
  if (!error_) moved |= receive_all();
  if (!moved && !error_) check_idle();
  return moved;
}

void TcpConnection::look_for_events() noexcept {
  constexpr int kMost = 16;
  std::array<epoll_event, kMost> events;
  int count = epoll_wait(epoll_.get(), events.data(), kMost, 0);
  for (int i = 0; i < count; ++i) {
    Ready& ready = ready_[events[static_cast<std::size_t>(i)].data.u64];
    auto what = events[static_cast<std::size_t>(i)].events;
    if ((what & (EPOLLRDHUP | EPOLLHUP | EPOLLERR)) != 0) ready.hang_up = true;
    if ((what & (EPOLLIN | EPOLLRDHUP | EPOLLHUP | EPOLLERR)) != 0) ready.in = true;
    if ((what & (EPOLLOUT | EPOLLHUP | EPOLLERR)) != 0) ready.out = true;
  }
}

bool TcpConnection::send_all() noexcept {
  fresh_send_ = false;
  bool several = fds_.size() > 1, moved = false;
  if (several && std::ranges::any_of(ready_, [](const Ready& ready) { return !ready.out; }))
    look_for_events();
  for (std::size_t i = 0; i < fds_.size() && sender_.pending(); ++i) {
    if (several && !ready_[i].out) continue;
    std::size_t allowance = kMostPerPass;
    TimePoint now{};
    if (limit_) {
      now = clock_->now();
      allowance = std::min(allowance, limit_->egress.allowance(now));
      if (allowance == 0) return moved;
    }
    auto result = sender_.flush(i, allowance);
    if (limit_ && result.written != 0) limit_->egress.consume(result.written, now);
    if (result.written != 0) moved = moved_ = true;
    if (result.blocked) ready_[i].out = false;
    if (result.error != 0) {
      // The peer may have closed after sending what this end still has to read, goodbye included.
      read_what_is_left();
      if (!error_) fail_io("send", result.error);
      return moved;
    }
  }
  return moved;
}

bool TcpConnection::receive_all() noexcept {
  bool several = fds_.size() > 1, moved = false;
  if (several) look_for_events();
  for (std::size_t i = 0; i < fds_.size(); ++i) {
    if ((several && !ready_[i].in) || !receiver_.wants_data(i)) continue;
    std::size_t allowance = kMostPerPass;
    TimePoint now{};
    if (limit_) {
      now = clock_->now();
      allowance = std::min(allowance, limit_->ingress.allowance(now));
      if (allowance == 0) return moved;
    }
    auto result = receiver_.read(i, allowance);
    if (limit_ && result.read != 0) limit_->ingress.consume(result.read, now);
    if (result.read != 0) moved = moved_ = true;
    if (result.drained && !ready_[i].hang_up) ready_[i].in = false;
    if (receiver_.fault() != Receiver::Fault::kNone) {
      check_fault();
      return moved;
    }
    if (result.error != 0) {
      fail_io("receive", result.error);
      return moved;
    }
    if (result.ended) note_end(i);
    if (error_) return moved;
  }
  return moved;
}

void TcpConnection::note_end(std::size_t stream) noexcept {
  if (!receiver_.said_goodbye(stream) && !torn_at_) torn_at_ = clock_->now();
  check_ends();
}

void TcpConnection::check_ends() noexcept {
  bool all = true;
  for (std::size_t i = 0; i < fds_.size(); ++i) all &= receiver_.ended(i);
  // What was sent before the end on other streams is still to be read; but a torn stream's peer is gone, and
  // the rest follows soon or not at all.
  if (!all && !(torn_at_ && clock_->now() - *torn_at_ > kTornGrace)) return;
  bool torn = torn_at_.has_value();
  fail_with(Cause::kRemote,
            torn ? "the peer vanished: its end was closed without a goodbye (did its process die?)"
                 : "the peer closed the connection",
            GoodbyeReason::kClosed, {});
}

void TcpConnection::read_what_is_left() noexcept {
  for (std::size_t i = 0; i < fds_.size() && !error_; ++i) {
    auto result = receiver_.read(i, kNoLimit);
    if (receiver_.fault() != Receiver::Fault::kNone) {
      check_fault();
    } else if (result.ended) {
      note_end(i);
    }
  }
}

void TcpConnection::check_fault() noexcept {
  const FrameHeader& header = receiver_.fault_header();
  switch (receiver_.fault()) {
    case Receiver::Fault::kNone:
      return;
    case Receiver::Fault::kTooLarge: {
      FrameHeader about = header;
      about.offset = receiver_.fault_capacity();
      fail_with(Cause::kRemote,
                fmt::format("message {} has {} bytes, but the receive posted for it takes {} bytes",
                            header.sequence, header.total, receiver_.fault_capacity()),
                GoodbyeReason::kTooLarge, about);
      return;
    }
    case Receiver::Fault::kMalformed:
      fail_with(
          Cause::kRemote,
          fmt::format("the peer sent bytes that are no valid frame here (message {}, offset {}, length {}, "
                      "total {}; message {} was due)",
                      header.sequence, header.offset, header.length, header.total, receiver_.oldest()),
          GoodbyeReason::kMalformed, {});
      return;
    case Receiver::Fault::kPeerFailed:
      switch (header.reason) {
        case GoodbyeReason::kTooLarge:
          fail_with(Cause::kRemote,
                    fmt::format(
                        "the peer closed it: message {} has {} bytes, but the receive posted for it takes {} "
                        "bytes",
                        header.sequence, header.total, header.offset),
                    GoodbyeReason::kOther, {});
          return;
        case GoodbyeReason::kMalformed:
          fail_with(Cause::kRemote, "the peer closed it: it could not make sense of the bytes it received",
                    GoodbyeReason::kOther, {});
          return;
        case GoodbyeReason::kTimeout:
          fail_with(Cause::kRemote, "the peer closed it: no progress for too long", GoodbyeReason::kOther,
                    {});
          return;
        default:
          fail_with(Cause::kRemote, "the peer closed it after a failure of its own", GoodbyeReason::kOther,
                    {});
          return;
      }
  }
}

void TcpConnection::check_idle() noexcept {
  if (torn_at_) {
    check_ends();
    if (error_) return;
  }
  TimePoint now = clock_->now();
  if (moved_) {
    moved_ = false;
    last_moved_ = last_checked_ = now;
    return;
  }
  if (now - last_checked_ < std::min(kCheckEvery, idle_timeout_ / 4)) return;
  last_checked_ = now;
  if (!sender_.pending() && !receiver_.pending()) {
    last_moved_ = now;
    return;
  }
  if (now - last_moved_ < idle_timeout_) return;
  for (int socket : fds_) {
    Duration silent = unanswered_for(socket);
    if (silent < idle_timeout_) continue;
    fail_with(Cause::kTimeout,
              fmt::format("the peer's host has not answered for {}, {}", format_seconds(to_seconds(silent)),
                          in_flight()),
              GoodbyeReason::kTimeout, {});
    return;
  }
  // A waiting receive alone is not a failure while the peer's host answers: the peer may compute.
  if (sender_.pending() && now - last_moved_ >= kStalledFactor * idle_timeout_) {
    fail_with(Cause::kTimeout,
              fmt::format("the peer took nothing for {}, {}", format_seconds(to_seconds(now - last_moved_)),
                          in_flight()),
              GoodbyeReason::kTimeout, {});
  }
}

std::string TcpConnection::in_flight() noexcept {
  if (const auto* send = sender_.oldest_request()) {
    return fmt::format("while sending message {} of {}", sender_.oldest(), format_size(send->size));
  }
  if (const auto* receive = receiver_.oldest_request()) {
    return receive->known ? fmt::format("while receiving message {} ({} of {} bytes so far)",
                                        receiver_.oldest(), receive->moved, receive->total)
                          : fmt::format("while waiting for message {}", receiver_.oldest());
  }
  return "with nothing in flight";
}

void TcpConnection::fail_io(std::string_view operation, int error_number) noexcept {
  bool gone = error_number == EPIPE || error_number == ECONNRESET;
  bool late = error_number == ETIMEDOUT || error_number == EHOSTUNREACH || error_number == ENETUNREACH;
  fail_with(gone   ? Cause::kRemote
            : late ? Cause::kTimeout
                   : Cause::kSystem,
            fmt::format("{} failed: {} (errno {}), {}", operation, errno_text(error_number), error_number,
                        in_flight()),
            GoodbyeReason::kOther, {});
}

void TcpConnection::fail_with(Cause cause, std::string_view what, GoodbyeReason reason,
                              const FrameHeader& about) noexcept {
  if (error_) return;
  error_.emplace(cause, fmt::format("{}: {}", description_, what));
  log_.trace("{}", error_->what());
  FrameHeader header = about;
  header.type = FrameType::kGoodbye;
  header.reason = reason;
  header.length = 0;
  say_goodbye(header);
  // Also wakes whoever polls: an ended socket is always ready.
  for (int socket : fds_) shutdown(socket, SHUT_RDWR);
}

void TcpConnection::say_goodbye(const FrameHeader& header) noexcept {
  HeaderBytes bytes;
  encode(header, bytes);
  for (std::size_t i = 0; i < fds_.size(); ++i) {
    if (sender_.mid_frame(i)) continue;
    [[maybe_unused]] auto sent = send(fds_[i], bytes.data(), bytes.size(), MSG_NOSIGNAL | MSG_DONTWAIT);
  }
}

void TcpConnection::linger() noexcept {
  // Closing a socket that holds unread bytes, or that gets some later, resets it, and a reset discards what
  // the peer has not acknowledged yet. So read (and drop) until everything sent has been acknowledged.
  auto deadline = Deadline::after(kLinger);
  for (int socket : fds_) shutdown(socket, SHUT_WR);
  std::vector<pollfd> waiting;
  std::array<std::byte, 64 * 1024> dropped;
  for (;;) {
    waiting.clear();
    for (int socket : fds_) {
      ssize_t got = 0;
      do got = recv(socket, dropped.data(), dropped.size(), MSG_DONTWAIT);
      while (got > 0);
      int unacknowledged = 0;
      bool open = got < 0 && (errno == EAGAIN || errno == EWOULDBLOCK || errno == EINTR);
      if (open && ioctl(socket, SIOCOUTQ, &unacknowledged) == 0 && unacknowledged > 0) {
        waiting.push_back({socket, POLLIN, 0});
      }
    }
    // An acknowledgement raises no event, so look again soon.
    if (waiting.empty() || deadline.passed()) return;
    poll(waiting.data(), waiting.size(), 1);
  }
}

void TcpConnection::append_wait_handles(std::vector<pollfd>& handles) const {
  Duration wait = Duration::max();
  bool may_send = true, may_receive = true;
  if (limit_ && !error_) {
    TimePoint now = clock_->now();
    if (sender_.pending()) {
      Duration egress = limit_->egress.until_ready(now);
      may_send = egress == Duration::zero();
      if (!may_send) wait = egress;
    }
    Duration ingress = limit_->ingress.until_ready(now);
    may_receive = ingress == Duration::zero();
    if (!may_receive) wait = std::min(wait, ingress);
  }
  if (wait != Duration::max()) {
    itimerspec at{};
    at.it_value.tv_sec = static_cast<time_t>(wait / seconds(1));
    at.it_value.tv_nsec = static_cast<long>((wait % seconds(1)).count());
    timerfd_settime(timer_.get(), 0, &at, nullptr);
    handles.push_back({timer_.get(), POLLIN, 0});
  }
  for (std::size_t i = 0; i < fds_.size(); ++i) {
    short events = 0;
    // A torn stream is always readable: that keeps its grace from being slept through.
    if (error_ || torn_at_ || (may_receive && receiver_.wants_data(i))) events |= POLLIN;
    if (sender_.pending() && may_send) events |= POLLOUT;
    if (events != 0) handles.push_back({fds_[i], events, 0});
  }
}

Statistics TcpConnection::statistics() const noexcept {
  return {sender_.bytes(), receiver_.bytes(), sender_.messages(), receiver_.messages()};
}

}  // namespace tombolo::transport::tcp
