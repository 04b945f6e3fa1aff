// For tests: a kernel that passes every call on to another one. Tests derive from it and change single calls.
#pragma once

#include "transport/kernel.h"

namespace tombolo::transport::test {

class ForwardingKernel : public Kernel {
 public:
  explicit ForwardingKernel(Kernel& to = kernel()) noexcept : to_(to) {}

  int socket(int domain, int type, int protocol) noexcept override {
    return to_.socket(domain, type, protocol);
  }
  int bind(int socket, const sockaddr* address, socklen_t length) noexcept override {
    return to_.bind(socket, address, length);
  }
  int listen(int socket, int backlog) noexcept override { return to_.listen(socket, backlog); }
  int accept4(int socket, sockaddr* address, socklen_t* length, int flags) noexcept override {
    return to_.accept4(socket, address, length, flags);
  }
  int connect(int socket, const sockaddr* address, socklen_t length) noexcept override {
    return to_.connect(socket, address, length);
  }
  int getsockname(int socket, sockaddr* address, socklen_t* length) noexcept override {
    return to_.getsockname(socket, address, length);
  }
  int getpeername(int socket, sockaddr* address, socklen_t* length) noexcept override {
    return to_.getpeername(socket, address, length);
  }
  int setsockopt(int socket, int level, int name, const void* value, socklen_t length) noexcept override {
    return to_.setsockopt(socket, level, name, value, length);
  }
  int getsockopt(int socket, int level, int name, void* value, socklen_t* length) noexcept override {
    return to_.getsockopt(socket, level, name, value, length);
  }
  ssize_t send(int socket, const void* data, std::size_t size, int flags) noexcept override {
    return to_.send(socket, data, size, flags);
  }
  ssize_t sendmsg(int socket, const msghdr* message, int flags) noexcept override {
    return to_.sendmsg(socket, message, flags);
  }
  ssize_t recv(int socket, void* data, std::size_t size, int flags) noexcept override {
    return to_.recv(socket, data, size, flags);
  }
  ssize_t recvmsg(int socket, msghdr* message, int flags) noexcept override {
    return to_.recvmsg(socket, message, flags);
  }
  int shutdown(int socket, int how) noexcept override { return to_.shutdown(socket, how); }
  int unacknowledged(int socket, int* bytes) noexcept override { return to_.unacknowledged(socket, bytes); }
  int unread(int socket, int* bytes) noexcept override { return to_.unread(socket, bytes); }
  int epoll_create1(int flags) noexcept override { return to_.epoll_create1(flags); }
  int epoll_ctl(int epoll, int operation, int descriptor, epoll_event* event) noexcept override {
    return to_.epoll_ctl(epoll, operation, descriptor, event);
  }
  int epoll_wait(int epoll, epoll_event* events, int most, int timeout_ms) noexcept override {
    return to_.epoll_wait(epoll, events, most, timeout_ms);
  }
  int poll(pollfd* handles, nfds_t count, int timeout_ms) noexcept override {
    return to_.poll(handles, count, timeout_ms);
  }
  int timerfd_create(int clock, int flags) noexcept override { return to_.timerfd_create(clock, flags); }
  int timerfd_settime(int timer, int flags, const itimerspec* at, itimerspec* before) noexcept override {
    return to_.timerfd_settime(timer, flags, at, before);
  }
  int pipe2(int ends[2], int flags) noexcept override { return to_.pipe2(ends, flags); }
  int pidfd_open(pid_t process, unsigned flags) noexcept override { return to_.pidfd_open(process, flags); }
  int eventfd(unsigned initial, int flags) noexcept override { return to_.eventfd(initial, flags); }
  ssize_t read(int descriptor, void* data, std::size_t size) noexcept override {
    return to_.read(descriptor, data, size);
  }
  ssize_t write(int descriptor, const void* data, std::size_t size) noexcept override {
    return to_.write(descriptor, data, size);
  }
  int close(int descriptor) noexcept override { return to_.close(descriptor); }
  int sched_yield() noexcept override { return to_.sched_yield(); }
  int sched_getcpu() noexcept override { return to_.sched_getcpu(); }
  ssize_t getrandom(void* data, std::size_t size, unsigned flags) noexcept override {
    return to_.getrandom(data, size, flags);
  }
  pid_t getpid() noexcept override { return to_.getpid(); }
  int memfd_create(const char* name, unsigned flags) noexcept override {
    return to_.memfd_create(name, flags);
  }
  int ftruncate(int file, off_t size) noexcept override { return to_.ftruncate(file, size); }
  int fcntl(int file, int command, int argument) noexcept override {
    return to_.fcntl(file, command, argument);
  }
  int open(const char* path, int flags) noexcept override { return to_.open(path, flags); }
  int stat(const char* path, struct ::stat* status) noexcept override { return to_.stat(path, status); }
  int fstat(int file, struct ::stat* status) noexcept override { return to_.fstat(file, status); }
  void* mmap(void* at, std::size_t size, int protection, int flags, int file,
             off_t offset) noexcept override {
    return to_.mmap(at, size, protection, flags, file, offset);
  }
  int munmap(void* at, std::size_t size) noexcept override { return to_.munmap(at, size); }
  int madvise(void* at, std::size_t size, int advice) noexcept override {
    return to_.madvise(at, size, advice);
  }
  ssize_t process_vm_readv(pid_t process, const iovec* mine, unsigned long count, const iovec* theirs,
                           unsigned long their_count, unsigned long flags) noexcept override {
    return to_.process_vm_readv(process, mine, count, theirs, their_count, flags);
  }

 private:
  Kernel& to_;
};

}  // namespace tombolo::transport::test
