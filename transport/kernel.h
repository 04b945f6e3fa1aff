// What the transports ask of the operating system: sockets, readiness, timers, random bytes, memory that two
// processes share.
//
// Every such call of this room goes through kernel(), so that tests can put a pretended kernel in its place
// (tests/simulation), whose network delays, loses and cuts as a seed says.
#pragma once

#include <poll.h>
#include <sys/epoll.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/timerfd.h>
#include <sys/types.h>
#include <sys/uio.h>

#include <cstddef>
#include <utility>

namespace tombolo::transport {

/// The system calls of the same names: arguments, results and errno are theirs. Any thread may call.
class Kernel {
 public:
  virtual ~Kernel() = default;

  virtual int socket(int domain, int type, int protocol) noexcept = 0;
  virtual int bind(int socket, const sockaddr* address, socklen_t length) noexcept = 0;
  virtual int listen(int socket, int backlog) noexcept = 0;
  virtual int accept4(int socket, sockaddr* address, socklen_t* length, int flags) noexcept = 0;
  virtual int connect(int socket, const sockaddr* address, socklen_t length) noexcept = 0;
  virtual int getsockname(int socket, sockaddr* address, socklen_t* length) noexcept = 0;
  virtual int getpeername(int socket, sockaddr* address, socklen_t* length) noexcept = 0;
  virtual int setsockopt(int socket, int level, int name, const void* value, socklen_t length) noexcept = 0;
  virtual int getsockopt(int socket, int level, int name, void* value, socklen_t* length) noexcept = 0;
  virtual ssize_t send(int socket, const void* data, std::size_t size, int flags) noexcept = 0;
  virtual ssize_t sendmsg(int socket, const msghdr* message, int flags) noexcept = 0;
  virtual ssize_t recv(int socket, void* data, std::size_t size, int flags) noexcept = 0;
  virtual ssize_t recvmsg(int socket, msghdr* message, int flags) noexcept = 0;
  virtual int shutdown(int socket, int how) noexcept = 0;
  /// ioctl(SIOCOUTQ): bytes that the peer's kernel has not acknowledged.
  virtual int unacknowledged(int socket, int* bytes) noexcept = 0;
  /// ioctl(SIOCINQ): bytes that have come and are not read.
  virtual int unread(int socket, int* bytes) noexcept = 0;

  virtual int epoll_create1(int flags) noexcept = 0;
  virtual int epoll_ctl(int epoll, int operation, int descriptor, epoll_event* event) noexcept = 0;
  virtual int epoll_wait(int epoll, epoll_event* events, int most, int timeout_ms) noexcept = 0;
  virtual int poll(pollfd* handles, nfds_t count, int timeout_ms) noexcept = 0;
  virtual int timerfd_create(int clock, int flags) noexcept = 0;
  virtual int timerfd_settime(int timer, int flags, const itimerspec* at, itimerspec* before) noexcept = 0;
  virtual int eventfd(unsigned initial, int flags) noexcept = 0;
  virtual ssize_t read(int descriptor, void* data, std::size_t size) noexcept = 0;
  virtual ssize_t write(int descriptor, const void* data, std::size_t size) noexcept = 0;
  virtual int pipe2(int ends[2], int flags) noexcept = 0;
  virtual int close(int descriptor) noexcept = 0;

  virtual int sched_yield() noexcept = 0;
  virtual int sched_getcpu() noexcept = 0;
  virtual ssize_t getrandom(void* data, std::size_t size, unsigned flags) noexcept = 0;

  virtual pid_t getpid() noexcept = 0;
  virtual int pidfd_open(pid_t process, unsigned flags) noexcept = 0;
  virtual int memfd_create(const char* name, unsigned flags) noexcept = 0;
  virtual int ftruncate(int file, off_t size) noexcept = 0;
  virtual int fcntl(int file, int command, int argument) noexcept = 0;
  virtual int open(const char* path, int flags) noexcept = 0;
  virtual int stat(const char* path, struct ::stat* status) noexcept = 0;
  virtual int fstat(int file, struct ::stat* status) noexcept = 0;
  virtual void* mmap(void* at, std::size_t size, int protection, int flags, int file,
                     off_t offset) noexcept = 0;
  virtual int munmap(void* at, std::size_t size) noexcept = 0;
  virtual int madvise(void* at, std::size_t size, int advice) noexcept = 0;
  virtual ssize_t process_vm_readv(pid_t process, const iovec* mine, unsigned long count, const iovec* theirs,
                                   unsigned long their_count, unsigned long flags) noexcept = 0;
};

namespace detail {
extern Kernel* current_kernel;
}

/// How many times this process's memory was forked since the program began: an object that remembers the
/// number can tell whether it is a forked child's copy. In a child every descriptor that the real kernel()
/// had opened, but for shared memory, and every one that is not_inherited(), is dead: its number still
/// belongs to its owner, but refers to /dev/null. So the parent's connections end with the parent, whatever
/// its children do, and no child can speak on them.
unsigned fork_generation() noexcept;

/// The kernel that this process uses.
inline Kernel& kernel() noexcept {
  return *detail::current_kernel;
}

/// Puts another kernel in place for as long as it lives. Only for tests, while no transport object exists.
class KernelInPlace {
 public:
  explicit KernelInPlace(Kernel& other) noexcept : before_(std::exchange(detail::current_kernel, &other)) {}
  ~KernelInPlace() { detail::current_kernel = before_; }
  KernelInPlace(const KernelInPlace&) = delete;
  KernelInPlace& operator=(const KernelInPlace&) = delete;

 private:
  Kernel* before_;
};

}  // namespace tombolo::transport
