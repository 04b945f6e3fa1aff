#include "transport/kernel.h"

#include <linux/sockios.h>
#include <sys/eventfd.h>
#include <sys/random.h>
#include <unistd.h>

namespace tombolo::transport {
namespace {

class Linux final : public Kernel {
 public:
  int socket(int domain, int type, int protocol) noexcept override {
    return ::socket(domain, type, protocol);
  }
  int bind(int socket, const sockaddr* address, socklen_t length) noexcept override {
    return ::bind(socket, address, length);
  }
  int listen(int socket, int backlog) noexcept override { return ::listen(socket, backlog); }
  int accept4(int socket, sockaddr* address, socklen_t* length, int flags) noexcept override {
    return ::accept4(socket, address, length, flags);
  }
  int connect(int socket, const sockaddr* address, socklen_t length) noexcept override {
    return ::connect(socket, address, length);
  }
  int getsockname(int socket, sockaddr* address, socklen_t* length) noexcept override {
    return ::getsockname(socket, address, length);
  }
  int getpeername(int socket, sockaddr* address, socklen_t* length) noexcept override {
    return ::getpeername(socket, address, length);
  }
  int setsockopt(int socket, int level, int name, const void* value, socklen_t length) noexcept override {
    return ::setsockopt(socket, level, name, value, length);
  }
  int getsockopt(int socket, int level, int name, void* value, socklen_t* length) noexcept override {
    return ::getsockopt(socket, level, name, value, length);
  }
  ssize_t send(int socket, const void* data, std::size_t size, int flags) noexcept override {
    return ::send(socket, data, size, flags);
  }
  ssize_t sendmsg(int socket, const msghdr* message, int flags) noexcept override {
    return ::sendmsg(socket, message, flags);
  }
  ssize_t recv(int socket, void* data, std::size_t size, int flags) noexcept override {
    return ::recv(socket, data, size, flags);
  }
  ssize_t recvmsg(int socket, msghdr* message, int flags) noexcept override {
    return ::recvmsg(socket, message, flags);
  }
  int shutdown(int socket, int how) noexcept override { return ::shutdown(socket, how); }
  int unacknowledged(int socket, int* bytes) noexcept override { return ::ioctl(socket, SIOCOUTQ, bytes); }

  int epoll_create1(int flags) noexcept override { return ::epoll_create1(flags); }
  int epoll_ctl(int epoll, int operation, int descriptor, epoll_event* event) noexcept override {
    return ::epoll_ctl(epoll, operation, descriptor, event);
  }
  int epoll_wait(int epoll, epoll_event* events, int most, int timeout_ms) noexcept override {
    return ::epoll_wait(epoll, events, most, timeout_ms);
  }
  int poll(pollfd* handles, nfds_t count, int timeout_ms) noexcept override {
    return ::poll(handles, count, timeout_ms);
  }
  int timerfd_create(int clock, int flags) noexcept override { return ::timerfd_create(clock, flags); }
  int timerfd_settime(int timer, int flags, const itimerspec* at, itimerspec* before) noexcept override {
    return ::timerfd_settime(timer, flags, at, before);
  }
  int eventfd(unsigned initial, int flags) noexcept override { return ::eventfd(initial, flags); }
  ssize_t read(int descriptor, void* data, std::size_t size) noexcept override {
    return ::read(descriptor, data, size);
  }
  ssize_t write(int descriptor, const void* data, std::size_t size) noexcept override {
    return ::write(descriptor, data, size);
  }
  int close(int descriptor) noexcept override { return ::close(descriptor); }

  ssize_t getrandom(void* data, std::size_t size, unsigned flags) noexcept override {
    return ::getrandom(data, size, flags);
  }
};

constinit Linux the_linux;

}  // namespace

constinit Kernel* detail::current_kernel = &the_linux;

}  // namespace tombolo::transport
