#include "tests/simulation/pretended_kernel.h"

#include <linux/tcp.h>
#include <netinet/in.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "base/format.h"

namespace tombolo::simulation {
namespace {

using std::chrono::microseconds;
using std::chrono::milliseconds;
using std::chrono::seconds;

constexpr unsigned kLoopbackNic = 255;

int failed(int error) noexcept {
  errno = error;
  return -1;
}

ssize_t result_of(std::ptrdiff_t got) noexcept {
  if (got >= 0) return got;
  errno = static_cast<int>(-got);
  return -1;
}

Address read_address(const sockaddr* address) noexcept {
  sockaddr_in in{};
  std::memcpy(&in, address, sizeof in);
  return {ntohl(in.sin_addr.s_addr), ntohs(in.sin_port)};
}

void write_address(Address from, sockaddr* to, socklen_t* length) noexcept {
  sockaddr_in in{};
  in.sin_family = AF_INET;
  in.sin_addr.s_addr = htonl(from.host);
  in.sin_port = htons(from.port);
  std::memcpy(to, &in, std::min<std::size_t>(*length, sizeof in));
  *length = sizeof in;
}

}  // namespace

int PretendedKernel::open(Body body) {
  const auto free = std::ranges::find(used_, false);
  const auto at = static_cast<std::size_t>(free - used_.begin());
  if (free == used_.end()) {
    used_.push_back(false);
    files_.emplace_back();
  }
  used_[at] = true;
  files_[at] = {host_, std::move(body)};
  return static_cast<int>(at);
}

PretendedKernel::File* PretendedKernel::file(int descriptor) noexcept {
  const auto at = static_cast<std::size_t>(descriptor);
  if (descriptor < 3 || at >= files_.size() || !used_[at] || killed(files_[at].host)) return nullptr;
  return &files_[at];
}

std::shared_ptr<Socket> PretendedKernel::stream(int descriptor) noexcept {
  File* found = file(descriptor);
  auto* socket = found == nullptr ? nullptr : std::get_if<std::shared_ptr<Socket>>(&found->body);
  return socket == nullptr ? nullptr : *socket;
}

bool PretendedKernel::fails(Call call) noexcept {
  const auto found = injected_.find({host_, call});
  if (found == injected_.end() || found->second.second == 0) return false;
  --found->second.second;
  errno = found->second.first;
  return true;
}

std::size_t PretendedKernel::some_of(std::size_t bytes) noexcept {
  if (bytes < 2 || short_one_in_ == 0 || random_() % short_one_in_ != 0) return bytes;
  return 1 + random_() % (bytes - 1);
}

void PretendedKernel::kill(unsigned host) {
  for (std::size_t i = 3; i < files_.size(); ++i) {
    if (!used_[i] || files_[i].host != host) continue;
    if (auto* socket = std::get_if<std::shared_ptr<Socket>>(&files_[i].body)) network_.close(*socket);
    files_[i].body = std::monostate{};
  }
  killed_[host] = true;
}

std::size_t PretendedKernel::open_descriptors() const noexcept {
  return static_cast<std::size_t>(std::ranges::count(used_, true)) - 3;
}

std::string PretendedKernel::describe_open() const {
  std::string text;
  for (std::size_t i = 3; i < files_.size(); ++i) {
    if (!used_[i]) continue;
    static constexpr const char* kNames[] = {"dead", "stream", "datagram", "timer", "event", "epoll"};
    text += fmt::format(" {}:{} of host {}", i, kNames[files_[i].body.index()], files_[i].host);
  }
  return text;
}

std::vector<std::shared_ptr<Socket>> PretendedKernel::streams_of(unsigned host) const {
  std::vector<std::shared_ptr<Socket>> streams;
  for (std::size_t i = 3; i < files_.size(); ++i) {
    if (!used_[i] || files_[i].host != host) continue;
    const auto* socket = std::get_if<std::shared_ptr<Socket>>(&files_[i].body);
    if (socket != nullptr && (*socket)->state == Socket::State::kConnected) streams.push_back(*socket);
  }
  return streams;
}

std::optional<TimePoint> PretendedKernel::next_timer() const {
  std::optional<TimePoint> soonest;
  for (std::size_t i = 3; i < files_.size(); ++i) {
    if (!used_[i]) continue;
    const auto* timer = std::get_if<Timer>(&files_[i].body);
    if (timer == nullptr || !timer->ends || *timer->ends <= clock_.now()) continue;
    soonest = soonest ? std::min(*soonest, *timer->ends) : *timer->ends;
  }
  return soonest;
}

int PretendedKernel::socket(int, int type, int) noexcept {
  if (killed(host_)) return failed(EMFILE);
  if (fails(Call::kSocket)) return -1;
  if ((type & 0xf) == SOCK_DGRAM) return open(Datagram{});
  return open(std::make_shared<Socket>());
}

int PretendedKernel::bind(int descriptor, const sockaddr* address, socklen_t) noexcept {
  const auto socket = stream(descriptor);
  if (!socket) return failed(EBADF);
  socket->own = read_address(address);
  // Each host has a loopback network of its own.
  if (socket->own.host >> 24 == 127) socket->own.host = address_of(host_, kLoopbackNic);
  return host_of(socket->own.host) == host_ ? 0 : failed(EADDRNOTAVAIL);
}

int PretendedKernel::listen(int descriptor, int backlog) noexcept {
  const auto socket = stream(descriptor);
  if (!socket) return failed(EBADF);
  if (socket->own.port == 0) socket->own.port = network_.free_port(socket->own.host);
  return network_.listen(socket, static_cast<std::size_t>(backlog)) ? 0 : failed(EADDRINUSE);
}

int PretendedKernel::accept4(int descriptor, sockaddr* address, socklen_t* length, int) noexcept {
  const auto listener = stream(descriptor);
  if (!listener) return failed(EBADF);
  network_.settle();
  if (listener->waiting.empty()) return failed(EAGAIN);
  if (fails(Call::kAccept)) return -1;
  const auto socket = listener->waiting.front();
  listener->waiting.pop_front();
  socket->open = true;
  if (address != nullptr) write_address(socket->peer, address, length);
  return open(socket);
}

int PretendedKernel::connect(int descriptor, const sockaddr* address, socklen_t) noexcept {
  const Address to = read_address(address);
  File* found = file(descriptor);
  if (found == nullptr) return failed(EBADF);
  if (auto* datagram = std::get_if<Datagram>(&found->body)) {
    datagram->own = {address_of(host_, nic_of(to.host)), 1};
    return 0;
  }
  const auto socket = stream(descriptor);
  if (!socket) return failed(ENOTSOCK);
  if (fails(Call::kConnect)) {
    socket->state = Socket::State::kDead;  // which poll(2) reports at once
    return -1;
  }
  network_.connect(socket, to);
  return failed(EINPROGRESS);
}

int PretendedKernel::getsockname(int descriptor, sockaddr* address, socklen_t* length) noexcept {
  File* found = file(descriptor);
  if (found == nullptr) return failed(EBADF);
  if (auto* datagram = std::get_if<Datagram>(&found->body)) {
    write_address(datagram->own, address, length);
    return 0;
  }
  const auto socket = stream(descriptor);
  if (!socket) return failed(ENOTSOCK);
  write_address(socket->own, address, length);
  return 0;
}

int PretendedKernel::getpeername(int descriptor, sockaddr* address, socklen_t* length) noexcept {
  const auto socket = stream(descriptor);
  if (!socket) return failed(EBADF);
  if (socket->state != Socket::State::kConnected) return failed(ENOTCONN);
  write_address(socket->peer, address, length);
  return 0;
}

int PretendedKernel::setsockopt(int descriptor, int level, int name, const void* value,
                                socklen_t length) noexcept {
  const auto socket = stream(descriptor);
  if (!socket) return failed(EBADF);
  int number = 0;
  std::memcpy(&number, value, std::min<std::size_t>(length, sizeof number));
  if (level == SOL_SOCKET && name == SO_LINGER) {
    ::linger given{};
    std::memcpy(&given, value, std::min<std::size_t>(length, sizeof given));
    socket->reset_on_close = given.l_onoff != 0 && given.l_linger == 0;
  } else if (level == SOL_SOCKET && name == SO_SNDBUF) {
    if (socket->out)
      socket->out->send_room = std::min<std::size_t>(64 * 1024, static_cast<std::size_t>(number));
  } else if (level == IPPROTO_TCP && name == TCP_KEEPIDLE) {
    socket->keepalive_idle = seconds(number);
  } else if (level == IPPROTO_TCP && name == TCP_KEEPINTVL) {
    socket->keepalive_interval = seconds(number);
  } else if (level == IPPROTO_TCP && name == TCP_KEEPCNT) {
    socket->keepalive_probes = number;
  }
  return 0;
}

int PretendedKernel::getsockopt(int descriptor, int level, int name, void* value,
                                socklen_t* length) noexcept {
  const auto socket = stream(descriptor);
  if (!socket) return failed(EBADF);
  network_.settle();
  if (level == SOL_SOCKET && name == SO_ERROR) {
    const int error = std::exchange(socket->error, 0);
    std::memcpy(value, &error, std::min<std::size_t>(*length, sizeof error));
    return 0;
  }
  if (level == IPPROTO_TCP && name == TCP_INFO) {
    const Path& path = network_.path(nic_of(socket->own.host));
    tcp_info info{};
    const bool over = socket->state != Socket::State::kConnected ||
                      (socket->write_ended && socket->in->ended && socket->out->ended);
    info.tcpi_state = over ? 7 : 1;
    info.tcpi_rtt = info.tcpi_min_rtt = static_cast<std::uint32_t>(2 * path.delay / microseconds(1));
    info.tcpi_snd_cwnd = 10;
    info.tcpi_snd_mss = 1448;
    if (const Duration unanswered = network_.unanswered(*socket); unanswered > Duration::zero()) {
      info.tcpi_retransmits = 1;
      info.tcpi_last_ack_recv = static_cast<std::uint32_t>(unanswered / milliseconds(1));
    }
    std::memcpy(value, &info, std::min<std::size_t>(*length, sizeof info));
    *length = std::min<socklen_t>(*length, sizeof info);
    return 0;
  }
  if (level == IPPROTO_TCP && name == TCP_CONGESTION) {
    constexpr char kName[] = "cubic";
    std::memcpy(value, kName, std::min<std::size_t>(*length, sizeof kName));
    return 0;
  }
  return failed(ENOPROTOOPT);
}

ssize_t PretendedKernel::write_parts(int descriptor, const iovec* parts, std::size_t count) noexcept {
  const auto socket = stream(descriptor);
  if (!socket) return failed(EBADF);
  if (fails(Call::kSend)) return -1;
  network_.settle();
  ssize_t total = 0;
  for (std::size_t i = 0; i < count; ++i) {
    const std::size_t wanted = some_of(parts[i].iov_len);
    const auto got = network_.write(*socket, {static_cast<const std::byte*>(parts[i].iov_base), wanted});
    if (got < 0) return total != 0 ? total : result_of(got);
    total += got;
    if (static_cast<std::size_t>(got) < parts[i].iov_len) {
      socket->full = true;  // a short write always means a lack of room, after which an edge comes
      break;
    }
  }
  return total;
}

ssize_t PretendedKernel::read_parts(int descriptor, const iovec* parts, std::size_t count,
                                    bool peek) noexcept {
  const auto socket = stream(descriptor);
  if (!socket) return failed(EBADF);
  if (fails(Call::kReceive)) return -1;
  network_.settle();
  ssize_t total = 0;
  for (std::size_t i = 0; i < count; ++i) {
    const auto got =
        network_.read(*socket, {static_cast<std::byte*>(parts[i].iov_base), some_of(parts[i].iov_len)}, peek);
    if (got < 0) return total != 0 ? total : result_of(got);
    total += got;
    if (static_cast<std::size_t>(got) < parts[i].iov_len) {
      // A short read always means that the rest has come while it was under way, which is an edge.
      if (socket->in && socket->in->arrived != 0) socket->in_edges += 1;
      break;
    }
  }
  return total;
}

ssize_t PretendedKernel::send(int descriptor, const void* data, std::size_t size, int) noexcept {
  const iovec part{const_cast<void*>(data), size};
  return write_parts(descriptor, &part, 1);
}

ssize_t PretendedKernel::sendmsg(int descriptor, const msghdr* message, int) noexcept {
  return write_parts(descriptor, message->msg_iov, message->msg_iovlen);
}

ssize_t PretendedKernel::recv(int descriptor, void* data, std::size_t size, int flags) noexcept {
  const iovec part{data, size};
  return read_parts(descriptor, &part, 1, (flags & MSG_PEEK) != 0);
}

ssize_t PretendedKernel::recvmsg(int descriptor, msghdr* message, int flags) noexcept {
  return read_parts(descriptor, message->msg_iov, message->msg_iovlen, (flags & MSG_PEEK) != 0);
}

int PretendedKernel::shutdown(int descriptor, int how) noexcept {
  const auto socket = stream(descriptor);
  if (!socket) return failed(EBADF);
  if (socket->state != Socket::State::kConnected) return failed(ENOTCONN);
  if (how != SHUT_RD) network_.shut_write(*socket);
  if (how != SHUT_WR) {
    socket->read_ended = true;
    socket->in_edges += 1;
  }
  return 0;
}

int PretendedKernel::unacknowledged(int descriptor, int* bytes) noexcept {
  const auto socket = stream(descriptor);
  if (!socket) return failed(EBADF);
  network_.settle();
  *bytes = 0;
  if (socket->state == Socket::State::kConnected) {
    *bytes = static_cast<int>(socket->out->unacknowledged());
    if (socket->write_ended && !socket->out->ended) ++*bytes;
  }
  return 0;
}

int PretendedKernel::epoll_create1(int) noexcept {
  return killed(host_) ? failed(EMFILE) : open(Epoll{});
}

int PretendedKernel::epoll_ctl(int descriptor, int operation, int of, epoll_event* event) noexcept {
  File* found = file(descriptor);
  auto* epoll = found == nullptr ? nullptr : std::get_if<Epoll>(&found->body);
  if (epoll == nullptr) return failed(EBADF);
  const auto socket = stream(of);
  if (!socket) return failed(EBADF);
  const auto same = [&](const Watched& one) { return one.descriptor == of && one.socket.lock() == socket; };
  const auto known = std::ranges::find_if(epoll->watched, same);
  if (operation == EPOLL_CTL_DEL) {
    if (known == epoll->watched.end()) return failed(ENOENT);
    epoll->watched.erase(known);
    return 0;
  }
  if (fails(Call::kEpollControl)) return -1;
  if (known != epoll->watched.end()) return failed(EEXIST);
  // What is there already counts as new.
  epoll->watched.push_back({of, socket, event->events, event->data.u64, 0, 0});
  return 0;
}

std::uint32_t PretendedKernel::events_of(const Socket& socket) const noexcept {
  std::uint32_t events = 0;
  if (socket.readable()) events |= EPOLLIN;
  if (socket.writable()) events |= EPOLLOUT;
  const bool dead = socket.state == Socket::State::kDead;
  if (dead || (socket.in && socket.in->ended)) events |= EPOLLRDHUP;
  if (dead || (socket.in && socket.in->ended && socket.write_ended)) events |= EPOLLHUP;
  if (socket.error != 0) events |= EPOLLERR;
  return events;
}

std::size_t PretendedKernel::collect(Epoll& epoll, epoll_event* events, std::size_t most,
                                     bool take) noexcept {
  network_.settle();
  std::erase_if(epoll.watched, [](const Watched& one) {
    const auto socket = one.socket.lock();
    return !socket || !socket->open;
  });
  std::size_t count = 0;
  // Sockets become ready in no order that a program may rely on.
  std::vector<std::size_t> order(epoll.watched.size());
  for (std::size_t i = 0; i < order.size(); ++i) order[i] = i;
  if (take) std::ranges::shuffle(order, random_);
  for (const std::size_t i : order) {
    Watched& one = epoll.watched[i];
    const auto socket = one.socket.lock();
    std::uint32_t now = events_of(*socket) & (one.events | EPOLLHUP | EPOLLERR);
    if ((one.events & EPOLLET) != 0) {
      // An edge reports all that is the case.
      const bool edge = (socket->in_edges != one.in_seen && (now & ~std::uint32_t{EPOLLOUT}) != 0) ||
                        (socket->out_edges != one.out_seen && (now & EPOLLOUT) != 0);
      if (!edge) now = 0;
    }
    if (now == 0) continue;
    if (count == most) break;
    if (take) {
      one.in_seen = socket->in_edges;
      one.out_seen = socket->out_edges;
      events[count].events = now;
      events[count].data.u64 = one.data;
    }
    ++count;
  }
  return count;
}

int PretendedKernel::epoll_wait(int descriptor, epoll_event* events, int most, int) noexcept {
  File* found = file(descriptor);
  auto* epoll = found == nullptr ? nullptr : std::get_if<Epoll>(&found->body);
  if (epoll == nullptr) return failed(EBADF);
  return static_cast<int>(collect(*epoll, events, static_cast<std::size_t>(most), true));
}

short PretendedKernel::ready_events(int descriptor, short wanted) noexcept {
  if (descriptor < 0) return 0;
  File* found = file(descriptor);
  if (found == nullptr) return killed(host_) ? 0 : POLLNVAL;
  if (auto* timer = std::get_if<Timer>(&found->body))
    return timer->ends && *timer->ends <= clock_.now() ? static_cast<short>(wanted & POLLIN) : 0;
  if (auto* event = std::get_if<Event>(&found->body))
    return event->count != 0 ? static_cast<short>(wanted & POLLIN) : 0;
  if (auto* epoll = std::get_if<Epoll>(&found->body))
    return collect(*epoll, nullptr, 1, false) != 0 ? static_cast<short>(wanted & POLLIN) : 0;
  const auto socket = stream(descriptor);
  if (!socket) return 0;
  network_.settle();
  const std::uint32_t now = events_of(*socket);
  short events = 0;
  if ((now & EPOLLIN) != 0) events |= POLLIN;
  if ((now & EPOLLOUT) != 0) events |= POLLOUT;
  if ((now & EPOLLRDHUP) != 0) events |= POLLRDHUP;
  events = static_cast<short>(events & wanted);
  if ((now & EPOLLHUP) != 0) events |= POLLHUP;
  if ((now & EPOLLERR) != 0) events |= POLLERR;
  return events;
}

bool PretendedKernel::ready(std::span<const pollfd> handles) {
  return std::ranges::any_of(handles,
                             [this](const pollfd& one) { return ready_events(one.fd, one.events) != 0; });
}

int PretendedKernel::poll(pollfd* handles, nfds_t count, int timeout_ms) noexcept {
  // A thread that may sleep gives way even where it need not: otherwise one that calls again and again would
  // be alone for ever, in no time.
  if (timeout_ms != 0) give_way();
  const TimePoint until =
      timeout_ms < 0 ? TimePoint::max() : clock_.now() + Duration(milliseconds(timeout_ms));
  for (;;) {
    int ready = 0;
    for (nfds_t i = 0; i < count; ++i) {
      handles[i].revents = ready_events(handles[i].fd, handles[i].events);
      ready += handles[i].revents != 0;
    }
    if (ready != 0 || clock_.now() >= until) return ready;
    sleep_({handles, count}, until);
  }
}

void PretendedKernel::give_way() noexcept {
  sleep_({}, clock_.now());
}

int PretendedKernel::timerfd_create(int, int) noexcept {
  return killed(host_) ? failed(EMFILE) : open(Timer{});
}

int PretendedKernel::timerfd_settime(int descriptor, int, const itimerspec* at, itimerspec*) noexcept {
  File* found = file(descriptor);
  auto* timer = found == nullptr ? nullptr : std::get_if<Timer>(&found->body);
  if (timer == nullptr) return failed(EBADF);
  const Duration in = seconds(at->it_value.tv_sec) + std::chrono::nanoseconds(at->it_value.tv_nsec);
  timer->ends.reset();
  if (in > Duration::zero()) timer->ends = clock_.now() + in;
  return 0;
}

int PretendedKernel::eventfd(unsigned initial, int) noexcept {
  return killed(host_) ? failed(EMFILE) : open(Event{initial});
}

ssize_t PretendedKernel::read(int descriptor, void* data, std::size_t size) noexcept {
  File* found = file(descriptor);
  auto* event = found == nullptr ? nullptr : std::get_if<Event>(&found->body);
  if (event == nullptr) return recv(descriptor, data, size, 0);
  if (event->count == 0) return failed(EAGAIN);
  const std::uint64_t count = std::exchange(event->count, 0);
  std::memcpy(data, &count, std::min(size, sizeof count));
  return sizeof count;
}

ssize_t PretendedKernel::write(int descriptor, const void* data, std::size_t size) noexcept {
  File* found = file(descriptor);
  auto* event = found == nullptr ? nullptr : std::get_if<Event>(&found->body);
  if (event == nullptr) return send(descriptor, data, size, 0);
  std::uint64_t more = 0;
  std::memcpy(&more, data, std::min(size, sizeof more));
  event->count += more;
  return sizeof more;
}

int PretendedKernel::close(int descriptor) noexcept {
  const auto at = static_cast<std::size_t>(descriptor);
  if (descriptor < 3 || at >= files_.size() || !used_[at]) return failed(EBADF);
  Body body = std::exchange(files_[at].body, std::monostate{});
  used_[at] = false;
  if (auto* socket = std::get_if<std::shared_ptr<Socket>>(&body)) network_.close(*socket);
  return 0;
}

ssize_t PretendedKernel::getrandom(void* data, std::size_t size, unsigned) noexcept {
  auto* bytes = static_cast<unsigned char*>(data);
  for (std::size_t i = 0; i < size; ++i) bytes[i] = static_cast<unsigned char>(random_());
  return static_cast<ssize_t>(size);
}

}  // namespace tombolo::simulation
