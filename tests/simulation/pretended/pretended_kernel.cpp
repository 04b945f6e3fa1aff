#include "tests/simulation/pretended/pretended_kernel.h"

#include <netinet/in.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "base/format.h"

namespace tombolo::simulation {
namespace {

constexpr unsigned kLoopbackNic = 255;

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

constexpr std::uint32_t kLoopback = 127U << 24 | 1;

bool is_loopback(Address address) noexcept {
  return address.host >> 24 == 127;
}

}  // namespace

void PretendedKernel::write_address(Address from, sockaddr* to, socklen_t* length) const noexcept {
  sockaddr_in in{};
  in.sin_family = AF_INET;
  in.sin_addr.s_addr = htonl(one_machine_ ? kLoopback : from.host);
  in.sin_port = htons(from.port);
  std::memcpy(to, &in, std::min<std::size_t>(*length, sizeof in));
  *length = sizeof in;
}

/// Where the pretended network has what a program on this host calls by that address. On one machine a
/// loopback address is that of the process which listens at the port.
Address PretendedKernel::place_of(Address to) const noexcept {
  if (!is_loopback(to)) return to;
  const unsigned nic = one_machine_ ? 0 : kLoopbackNic;
  for (unsigned host = 0; one_machine_ && to.port != 0 && host < killed_.size(); ++host)
    if (network_.listens({address_of(host, nic), to.port})) return {address_of(host, nic), to.port};
  return {address_of(host_, nic), to.port};
}

const char* PretendedKernel::kind_of(const Body& body) noexcept {
  static constexpr const char* kNames[] = {"dead", "stream", "datagram", "timer", "event", "epoll", "file"};
  return kNames[body.index()];
}

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

std::shared_ptr<Socket>* PretendedKernel::held_stream(int descriptor) noexcept {
  File* found = file(descriptor);
  return found == nullptr ? nullptr : std::get_if<std::shared_ptr<Socket>>(&found->body);
}

Socket* PretendedKernel::stream(int descriptor) noexcept {
  const auto* held = held_stream(descriptor);
  return held == nullptr ? nullptr : held->get();
}

bool PretendedKernel::fails(Call call) noexcept {
  const auto found = injected_.find({host_, call});
  if (found == injected_.end() || found->second.second == 0) return false;
  --found->second.second;
  errno = found->second.first;
  if (errno == EINTR) interrupted_[host_] = true;
  return true;
}

bool PretendedKernel::fails(Call call, const Socket& socket) noexcept {
  if (!fails(call)) return false;
  if (errno != EINTR) network_.note_cut(socket);
  return true;
}

std::size_t PretendedKernel::some_of(std::size_t bytes) noexcept {
  if (bytes < 2 || short_one_in_ == 0 || random_() % short_one_in_ != 0) return bytes;
  return 1 + random_() % (bytes - 1);
}

void PretendedKernel::kill(unsigned host) {
  for (std::size_t i = 3; i < files_.size(); ++i) {
    if (!used_[i] || files_[i].host != host) continue;
    if (auto* socket = std::get_if<std::shared_ptr<Socket>>(&files_[i].body)) close_stream(*socket);
    files_[i].body = std::monostate{};
  }
  killed_[host] = true;
  take_mappings_from(host);
}

std::size_t PretendedKernel::open_descriptors() const noexcept {
  return static_cast<std::size_t>(std::ranges::count(used_, true)) - 3;
}

std::string PretendedKernel::describe_open() const {
  std::string text;
  for (std::size_t i = 3; i < files_.size(); ++i) {
    if (!used_[i]) continue;
    text += fmt::format(" {}:{} of host {}", i, kind_of(files_[i].body), files_[i].host);
  }
  return text;
}

std::string PretendedKernel::describe_ready(std::span<const pollfd> handles) {
  std::string text;
  for (const pollfd& one : handles) {
    const short events = ready_events(one.fd, one.events);
    const File* found = file(one.fd);
    if (events != 0)
      text += fmt::format(" {}:{} for {:#x}", one.fd, found ? kind_of(found->body) : "none", events);
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
  if (killed(host_)) return failed_with(EMFILE);
  if (fails(Call::kSocket)) return -1;
  if ((type & 0xf) == SOCK_DGRAM) return open(Datagram{});
  return open(std::make_shared<Socket>());
}

int PretendedKernel::bind(int descriptor, const sockaddr* address, socklen_t) noexcept {
  Socket* const socket = stream(descriptor);
  if (socket == nullptr) return failed_with(EBADF);
  socket->own = read_address(address);
  // Each host has a loopback network of its own.
  if (is_loopback(socket->own)) socket->own.host = address_of(host_, one_machine_ ? 0 : kLoopbackNic);
  return host_of(socket->own.host) == host_ ? 0 : failed_with(EADDRNOTAVAIL);
}

int PretendedKernel::listen(int descriptor, int backlog) noexcept {
  const auto* held = held_stream(descriptor);
  if (held == nullptr) return failed_with(EBADF);
  Address& own = (*held)->own;
  if (own.port == 0) own.port = network_.free_port(own.host);
  return network_.listen(*held, static_cast<std::size_t>(backlog)) ? 0 : failed_with(EADDRINUSE);
}

int PretendedKernel::accept4(int descriptor, sockaddr* address, socklen_t* length, int) noexcept {
  Socket* const listener = stream(descriptor);
  if (listener == nullptr) return failed_with(EBADF);
  network_.settle();
  if (listener->waiting.empty()) return failed_with(EAGAIN);
  if (fails(Call::kAccept)) return -1;
  const auto socket = listener->waiting.front();
  listener->waiting.pop_front();
  socket->open = true;
  socket->note_change();
  ++moved_[host_];
  if (address != nullptr) write_address(socket->peer, address, length);
  return open(socket);
}

int PretendedKernel::connect(int descriptor, const sockaddr* address, socklen_t) noexcept {
  const Address to = place_of(read_address(address));
  File* found = file(descriptor);
  if (found == nullptr) return failed_with(EBADF);
  if (auto* datagram = std::get_if<Datagram>(&found->body)) {
    datagram->own = {address_of(host_, nic_of(to.host)), 1};
    return 0;
  }
  const auto* held = held_stream(descriptor);
  if (held == nullptr) return failed_with(ENOTSOCK);
  if (fails(Call::kConnect)) {
    (*held)->state = Socket::State::kDead;  // which poll(2) reports at once
    return -1;
  }
  network_.connect(*held, to);
  ++moved_[host_];
  return failed_with(EINPROGRESS);
}

int PretendedKernel::getsockname(int descriptor, sockaddr* address, socklen_t* length) noexcept {
  File* found = file(descriptor);
  if (found == nullptr) return failed_with(EBADF);
  if (auto* datagram = std::get_if<Datagram>(&found->body)) {
    write_address(datagram->own, address, length);
    return 0;
  }
  Socket* const socket = stream(descriptor);
  if (socket == nullptr) return failed_with(ENOTSOCK);
  write_address(socket->own, address, length);
  return 0;
}

int PretendedKernel::getpeername(int descriptor, sockaddr* address, socklen_t* length) noexcept {
  Socket* const socket = stream(descriptor);
  if (socket == nullptr) return failed_with(EBADF);
  if (socket->state != Socket::State::kConnected) return failed_with(ENOTCONN);
  write_address(socket->peer, address, length);
  return 0;
}

ssize_t PretendedKernel::write_parts(int descriptor, const iovec* parts, std::size_t count) noexcept {
  Socket* const socket = stream(descriptor);
  if (socket == nullptr) return failed_with(EBADF);
  if (fails(Call::kSend, *socket)) return -1;
  network_.settle();
  ssize_t total = 0;
  for (std::size_t i = 0; i < count; ++i) {
    const std::size_t wanted = some_of(parts[i].iov_len);
    std::span bytes(static_cast<const std::byte*>(parts[i].iov_base), wanted);
    const bool loses = loses_bytes_ && wanted > 1000;
    if (loses) bytes = bytes.subspan(1);
    auto got = network_.write(*socket, bytes);
    if (got < 0 && total == 0) return result_of(got);
    if (got < 0) break;
    got += loses;
    total += got;
    if (static_cast<std::size_t>(got) < parts[i].iov_len) {
      // A short write means a lack of room, after which an edge comes; here at once, where there was room.
      if (socket->writable())
        socket->out_edges += 1;
      else
        socket->full = true;
      break;
    }
  }
  moved_[host_] += total != 0;
  return total;
}

ssize_t PretendedKernel::read_parts(int descriptor, const iovec* parts, std::size_t count,
                                    bool peek) noexcept {
  Socket* const socket = stream(descriptor);
  if (socket == nullptr) return failed_with(EBADF);
  if (fails(Call::kReceive, *socket)) return -1;
  network_.settle();
  ssize_t total = 0;
  for (std::size_t i = 0; i < count; ++i) {
    const auto got =
        network_.read(*socket, {static_cast<std::byte*>(parts[i].iov_base), some_of(parts[i].iov_len)}, peek);
    if (got < 0 && total == 0) return result_of(got);
    if (got < 0) break;
    total += got;
    if (static_cast<std::size_t>(got) < parts[i].iov_len) {
      // A short read always means that the rest has come while it was under way, which is an edge.
      if (socket->in && socket->in->arrived != 0) socket->in_edges += 1;
      break;
    }
  }
  moved_[host_] += total != 0;
  return total;
}

ssize_t PretendedKernel::send(int descriptor, const void* data, std::size_t size, int) noexcept {
  if (loses_lone_bytes_ && size == 1) return 1;
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
  Socket* const socket = stream(descriptor);
  if (socket == nullptr) return failed_with(EBADF);
  if (socket->state != Socket::State::kConnected) return failed_with(ENOTCONN);
  if (how != SHUT_RD) network_.shut_write(*socket);
  if (how != SHUT_WR) {
    socket->read_ended = true;
    socket->in_edges += 1;
  }
  return 0;
}

int PretendedKernel::unacknowledged(int descriptor, int* bytes) noexcept {
  Socket* const socket = stream(descriptor);
  if (socket == nullptr) return failed_with(EBADF);
  network_.settle();
  *bytes = 0;
  if (socket->state == Socket::State::kConnected) {
    *bytes = static_cast<int>(socket->out->unacknowledged());
    if (socket->write_ended && !socket->out->ended) ++*bytes;
  }
  return 0;
}

int PretendedKernel::unread(int descriptor, int* bytes) noexcept {
  Socket* const socket = stream(descriptor);
  if (socket == nullptr) return failed_with(EBADF);
  network_.settle();
  *bytes = socket->in ? static_cast<int>(socket->in->arrived) : 0;
  return 0;
}

void PretendedKernel::close_stream(const std::shared_ptr<Socket>& socket) {
  for (File& one : files_)
    if (auto* epoll = std::get_if<Epoll>(&one.body))
      std::erase_if(epoll->watched, [&](const Watched& each) { return each.socket == socket.get(); });
  network_.close(socket);
}

int PretendedKernel::close(int descriptor) noexcept {
  const auto at = static_cast<std::size_t>(descriptor);
  if (descriptor < 3 || at >= files_.size() || !used_[at]) return failed_with(EBADF);
  Body body = std::exchange(files_[at].body, std::monostate{});
  used_[at] = false;
  if (auto* socket = std::get_if<std::shared_ptr<Socket>>(&body)) close_stream(*socket);
  return 0;
}

ssize_t PretendedKernel::getrandom(void* data, std::size_t size, unsigned) noexcept {
  auto* bytes = static_cast<unsigned char*>(data);
  for (std::size_t i = 0; i < size; ++i) bytes[i] = static_cast<unsigned char>(random_());
  return static_cast<ssize_t>(size);
}

}  // namespace tombolo::simulation
