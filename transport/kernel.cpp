#include "transport/kernel.h"

#include <fcntl.h>
#include <linux/sockios.h>
#include <pthread.h>
#include <sched.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <sys/random.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <cstdint>

#include "transport/not_inherited.h"

namespace tombolo::transport {
namespace {

std::atomic<unsigned> generation{0};

/// Which descriptors the kernel has opened for this room, and those that others hold as not_inherited(). A
/// fork's child may call only what is safe in a signal handler, and so it is a fixed table. Descriptors
/// beyond it are not remembered.
class OpenDescriptors {
 public:
  static constexpr std::size_t kMost = std::size_t{1} << 20;  // as Linux' fs.nr_open by default

  int add(int descriptor) noexcept {
    if (descriptor >= 0 && static_cast<std::size_t>(descriptor) < kMost)
      word(descriptor).fetch_or(bit(descriptor), std::memory_order_relaxed);
    return descriptor;
  }
  void remove(int descriptor) noexcept {
    if (descriptor >= 0 && static_cast<std::size_t>(descriptor) < kMost)
      word(descriptor).fetch_and(~bit(descriptor), std::memory_order_relaxed);
  }
  void make_dead() noexcept {
    int dead = -1;
    for (std::size_t i = 0; i < words_.size(); ++i) {
      for (std::uint64_t left = words_[i].load(std::memory_order_relaxed); left != 0; left &= left - 1) {
        const int descriptor = static_cast<int>(i * 64) + __builtin_ctzll(left);
        if (dead < 0) dead = ::open("/dev/null", O_RDWR | O_CLOEXEC);
        // Where that cannot be had, the number is given up: better a closed descriptor than a shared one.
        if (dead < 0 || ::dup3(dead, descriptor, O_CLOEXEC) < 0) ::close(descriptor);
      }
    }
    if (dead >= 0) ::close(dead);
  }

 private:
  static std::uint64_t bit(int descriptor) noexcept { return std::uint64_t{1} << (descriptor % 64); }
  std::atomic<std::uint64_t>& word(int descriptor) noexcept {
    return words_[static_cast<std::size_t>(descriptor) / 64];
  }
  std::array<std::atomic<std::uint64_t>, kMost / 64> words_{};
};

OpenDescriptors open_descriptors;

void in_child() noexcept {
  generation.fetch_add(1, std::memory_order_relaxed);
  open_descriptors.make_dead();
}

/// Registered when the program, or the plugin, is loaded. The C library forgets it when the plugin is
/// unloaded.
[[maybe_unused]] const int registered = pthread_atfork(nullptr, nullptr, in_child);

class Linux final : public Kernel {
 public:
  int socket(int domain, int type, int protocol) noexcept override {
    return open_descriptors.add(::socket(domain, type, protocol));
  }
  int bind(int socket, const sockaddr* address, socklen_t length) noexcept override {
    return ::bind(socket, address, length);
  }
  int listen(int socket, int backlog) noexcept override { return ::listen(socket, backlog); }
  int accept4(int socket, sockaddr* address, socklen_t* length, int flags) noexcept override {
    return open_descriptors.add(::accept4(socket, address, length, flags));
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
  int unread(int socket, int* bytes) noexcept override { return ::ioctl(socket, SIOCINQ, bytes); }

  int epoll_create1(int flags) noexcept override { return open_descriptors.add(::epoll_create1(flags)); }
  int epoll_ctl(int epoll, int operation, int descriptor, epoll_event* event) noexcept override {
    return ::epoll_ctl(epoll, operation, descriptor, event);
  }
  int epoll_wait(int epoll, epoll_event* events, int most, int timeout_ms) noexcept override {
    return ::epoll_wait(epoll, events, most, timeout_ms);
  }
  int poll(pollfd* handles, nfds_t count, int timeout_ms) noexcept override {
    return ::poll(handles, count, timeout_ms);
  }
  int timerfd_create(int clock, int flags) noexcept override {
    return open_descriptors.add(::timerfd_create(clock, flags));
  }
  int timerfd_settime(int timer, int flags, const itimerspec* at, itimerspec* before) noexcept override {
    return ::timerfd_settime(timer, flags, at, before);
  }
  int eventfd(unsigned initial, int flags) noexcept override {
    return open_descriptors.add(::eventfd(initial, flags));
  }
  ssize_t read(int descriptor, void* data, std::size_t size) noexcept override {
    return ::read(descriptor, data, size);
  }
  ssize_t write(int descriptor, const void* data, std::size_t size) noexcept override {
    return ::write(descriptor, data, size);
  }
  int pipe2(int ends[2], int flags) noexcept override {
    const int result = ::pipe2(ends, flags);
    if (result == 0) {
      open_descriptors.add(ends[0]);
      open_descriptors.add(ends[1]);
    }
    return result;
  }
  int close(int descriptor) noexcept override {
    open_descriptors.remove(descriptor);
    return ::close(descriptor);
  }

  int sched_yield() noexcept override { return ::sched_yield(); }
  int sched_getcpu() noexcept override { return ::sched_getcpu(); }
  ssize_t getrandom(void* data, std::size_t size, unsigned flags) noexcept override {
    return ::getrandom(data, size, flags);
  }

  pid_t getpid() noexcept override { return ::getpid(); }
  int pidfd_open(pid_t process, unsigned flags) noexcept override {
    // The C library has no function for it before glibc 2.36.
    return open_descriptors.add(static_cast<int>(::syscall(SYS_pidfd_open, process, flags)));
  }
  int memfd_create(const char* name, unsigned flags) noexcept override {
    // Shared memory says nothing on anybody's behalf, so that a forked child may keep its descriptors.
    return ::memfd_create(name, flags);
  }
  int ftruncate(int file, off_t size) noexcept override { return ::ftruncate(file, size); }
  int fcntl(int file, int command, int argument) noexcept override {
    return ::fcntl(file, command, argument);
  }
  int open(const char* path, int flags) noexcept override { return ::open(path, flags); }
  int stat(const char* path, struct ::stat* status) noexcept override { return ::stat(path, status); }
  int fstat(int file, struct ::stat* status) noexcept override { return ::fstat(file, status); }
  void* mmap(void* at, std::size_t size, int protection, int flags, int file,
             off_t offset) noexcept override {
    return ::mmap(at, size, protection, flags, file, offset);
  }
  int munmap(void* at, std::size_t size) noexcept override { return ::munmap(at, size); }
  int madvise(void* at, std::size_t size, int advice) noexcept override {
    return ::madvise(at, size, advice);
  }
  ssize_t process_vm_readv(pid_t process, const iovec* mine, unsigned long count, const iovec* theirs,
                           unsigned long their_count, unsigned long flags) noexcept override {
    return ::process_vm_readv(process, mine, count, theirs, their_count, flags);
  }
};

constinit Linux the_linux;

}  // namespace

unsigned fork_generation() noexcept {
  return generation.load(std::memory_order_relaxed);
}

int detail::forget_descriptor(int descriptor) noexcept {
  open_descriptors.remove(descriptor);
  return 0;
}

NotInherited not_inherited(int descriptor) noexcept {
  ::fcntl(descriptor, F_SETFD, FD_CLOEXEC);
  return NotInherited(open_descriptors.add(descriptor));
}

constinit Kernel* detail::current_kernel = &the_linux;

}  // namespace tombolo::transport
