// What pretended descriptors are ready for: epoll, poll, timers and events.
#include <algorithm>
#include <cerrno>
#include <cstring>
#include <numeric>

#include "tests/simulation/pretended/pretended_kernel.h"

namespace tombolo::simulation {

using std::chrono::milliseconds;
using std::chrono::seconds;

int PretendedKernel::epoll_create1(int) noexcept {
  return killed(host_) ? failed_with(EMFILE) : open(Epoll{});
}

int PretendedKernel::epoll_ctl(int descriptor, int operation, int of, epoll_event* event) noexcept {
  File* found = file(descriptor);
  auto* epoll = found == nullptr ? nullptr : std::get_if<Epoll>(&found->body);
  if (epoll == nullptr) return failed_with(EBADF);
  Socket* const socket = stream(of);
  if (socket == nullptr) return failed_with(EBADF);
  const auto same = [&](const Watched& one) { return one.descriptor == of && one.socket == socket; };
  const auto known = std::ranges::find_if(epoll->watched, same);
  if (operation == EPOLL_CTL_DEL) {
    if (known == epoll->watched.end()) return failed_with(ENOENT);
    epoll->watched.erase(known);
    return 0;
  }
  // A stream that cannot be watched is given up by its end.
  if (fails(Call::kEpollControl, *socket)) return -1;
  if (known != epoll->watched.end()) return failed_with(EEXIST);
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

/// What epoll would tell of a socket; nothing where that was told, and edges are wanted.
std::uint32_t PretendedKernel::news_of(const Watched& one) const noexcept {
  const Socket& socket = *one.socket;
  const bool edges = (one.events & EPOLLET) != 0;
  if (edges && socket.in_edges == one.in_seen && socket.out_edges == one.out_seen) return 0;
  const std::uint32_t now = events_of(socket) & (one.events | EPOLLHUP | EPOLLERR);
  if (!edges) return now;
  // An edge reports all that is the case.
  const bool edge = (socket.in_edges != one.in_seen && (now & ~std::uint32_t{EPOLLOUT}) != 0) ||
                    (socket.out_edges != one.out_seen && (now & EPOLLOUT) != 0);
  return edge ? now : 0;
}

bool PretendedKernel::has_news(const Epoll& epoll) noexcept {
  network_.settle();
  return std::ranges::any_of(epoll.watched, [this](const Watched& one) { return news_of(one) != 0; });
}

int PretendedKernel::epoll_wait(int descriptor, epoll_event* events, int most, int) noexcept {
  File* found = file(descriptor);
  auto* epoll = found == nullptr ? nullptr : std::get_if<Epoll>(&found->body);
  if (epoll == nullptr) return failed_with(EBADF);
  network_.settle();
  // Sockets become ready in no order that a program may rely on.
  order_.resize(epoll->watched.size());
  std::iota(order_.begin(), order_.end(), std::size_t{0});
  std::ranges::shuffle(order_, random_);
  int count = 0;
  for (const std::size_t i : order_) {
    Watched& one = epoll->watched[i];
    const std::uint32_t now = news_of(one);
    if (now == 0) continue;
    if (count == most) break;
    one.in_seen = one.socket->in_edges;
    one.out_seen = one.socket->out_edges;
    events[count].events = now;
    events[count].data.u64 = one.data;
    ++count;
  }
  return count;
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
    return has_news(*epoll) ? static_cast<short>(wanted & POLLIN) : 0;
  const auto* socket = std::get_if<std::shared_ptr<Socket>>(&found->body);
  if (socket == nullptr) return 0;
  network_.settle();
  const std::uint32_t now = events_of(**socket);
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
  return killed(host_) ? failed_with(EMFILE) : open(Timer{});
}

int PretendedKernel::timerfd_settime(int descriptor, int, const itimerspec* at, itimerspec*) noexcept {
  File* found = file(descriptor);
  auto* timer = found == nullptr ? nullptr : std::get_if<Timer>(&found->body);
  if (timer == nullptr) return failed_with(EBADF);
  const Duration in = seconds(at->it_value.tv_sec) + std::chrono::nanoseconds(at->it_value.tv_nsec);
  timer->ends.reset();
  if (in > Duration::zero()) timer->ends = clock_.now() + in;
  return 0;
}

int PretendedKernel::eventfd(unsigned initial, int) noexcept {
  return killed(host_) ? failed_with(EMFILE) : open(Event{initial});
}

ssize_t PretendedKernel::read(int descriptor, void* data, std::size_t size) noexcept {
  File* found = file(descriptor);
  auto* event = found == nullptr ? nullptr : std::get_if<Event>(&found->body);
  if (event == nullptr) return recv(descriptor, data, size, 0);
  if (event->count == 0) return failed_with(EAGAIN);
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

}  // namespace tombolo::simulation
