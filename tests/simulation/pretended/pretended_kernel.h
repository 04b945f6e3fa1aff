// The transports' kernel on a pretended network. Calls behave as Linux', and fail as the simulation wants.
#pragma once

#include <array>
#include <cerrno>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <random>
#include <span>
#include <string>
#include <variant>
#include <vector>

#include "base/clock.h"
#include "tests/simulation/pretended/network.h"
#include "transport/kernel.h"

namespace tombolo::simulation {

/// Sets errno, and returns what a failed call does.
inline int failed_with(int error) noexcept {
  errno = error;
  return -1;
}

/// Calls of a kind that can be made to fail.
enum class Call {
  kSocket,
  kAccept,
  kSend,
  kReceive,
  kEpollControl,
  kConnect,
  kReadMemory,  ///< process_vm_readv; ENODATA: of the bytes a part cannot be read
  kShareMemory  ///< memfd_create, open, mmap
};
inline constexpr std::array kCalls{Call::kSocket,     Call::kAccept,       Call::kSend,
                                   Call::kReceive,    Call::kEpollControl, Call::kConnect,
                                   Call::kReadMemory, Call::kShareMemory};

/// A file of the machine below, which pretended descriptors share.
class RealFile {
 public:
  explicit RealFile(int descriptor) noexcept : descriptor_(descriptor) {}
  ~RealFile();
  RealFile(const RealFile&) = delete;
  RealFile& operator=(const RealFile&) = delete;
  int get() const noexcept { return descriptor_; }

 private:
  int descriptor_;
};

class PretendedKernel final : public transport::Kernel {
 public:
  /// Called where a thread would sleep until then or until one of the handles is ready: returns after letting
  /// others go on and time pass, possibly earlier.
  using Sleep = std::function<void(std::span<const pollfd> handles, TimePoint until)>;

  PretendedKernel(FakeClock& clock, Network& network, std::mt19937_64& random, Sleep sleep)
      : clock_(clock), network_(network), random_(random), sleep_(std::move(sleep)) {}

  /// The hosts are processes of one machine: they share its loopback network, whose path is that of NIC 0,
  /// and may read each other's memory. `step` is called in the middle of such a read.
  void make_one_machine(std::function<void()> step) {
    one_machine_ = true;
    step_ = std::move(step);
  }
  /// The number of a host's process, which no other pretended kernel gives: what the product keeps of a
  /// process that never ended, because its run did not, is nobody else's.
  pid_t process_of(unsigned host) const noexcept { return first_process_ + static_cast<pid_t>(host); }
  /// Whether a call of that host's was made to fail with EINTR.
  bool interrupted(unsigned host) const noexcept { return interrupted_[host]; }
  /// When a read of another process's memory was first made to fail.
  std::optional<TimePoint> read_failed() const noexcept { return read_failed_; }
  /// The host on which the calling code runs.
  void set_host(unsigned host) noexcept { host_ = host; }
  /// The next calls of that kind on the host fail with this errno, so many times.
  void inject(unsigned host, Call call, int error, int times) { injected_[{host, call}] = {error, times}; }
  /// Reads and writes move a random part of what they could, one in so many times; 0 = never.
  void set_short_calls(unsigned one_in) noexcept { short_one_in_ = one_in; }
  /// A defect, to see that it is found: of what is written, a byte is lost now and then.
  void set_loses_bytes(bool loses) noexcept { loses_bytes_ = loses; }
  /// Another: bytes that are sent alone are lost.
  void set_loses_lone_bytes(bool loses) noexcept { loses_lone_bytes_ = loses; }
  /// Closes all descriptors of a host, as the kernel of a process that dies does. Its calls fail from now on,
  /// and what it writes to memory that it shared nobody else sees.
  void kill(unsigned host);
  bool killed(unsigned host) const noexcept { return host < killed_.size() && killed_[host]; }

  /// Goes up whenever a call of that host's moves bytes, or takes or begins a connection.
  std::uint64_t moved(unsigned host) const noexcept { return moved_[host]; }
  std::size_t open_descriptors() const noexcept;
  std::string describe_open() const;
  /// Those of the handles that poll(2) would say are ready, with what for.
  std::string describe_ready(std::span<const pollfd> handles);
  /// Whether poll(2) would say that some handle is ready.
  bool ready(std::span<const pollfd> handles);
  /// The connected streams of a host, for faults.
  std::vector<std::shared_ptr<Socket>> streams_of(unsigned host) const;
  /// When a timer ends next.
  std::optional<TimePoint> next_timer() const;

  int socket(int domain, int type, int protocol) noexcept override;
  int bind(int socket, const sockaddr* address, socklen_t length) noexcept override;
  int listen(int socket, int backlog) noexcept override;
  int accept4(int socket, sockaddr* address, socklen_t* length, int flags) noexcept override;
  int connect(int socket, const sockaddr* address, socklen_t length) noexcept override;
  int getsockname(int socket, sockaddr* address, socklen_t* length) noexcept override;
  int getpeername(int socket, sockaddr* address, socklen_t* length) noexcept override;
  int setsockopt(int socket, int level, int name, const void* value, socklen_t length) noexcept override;
  int getsockopt(int socket, int level, int name, void* value, socklen_t* length) noexcept override;
  ssize_t send(int socket, const void* data, std::size_t size, int flags) noexcept override;
  ssize_t sendmsg(int socket, const msghdr* message, int flags) noexcept override;
  ssize_t recv(int socket, void* data, std::size_t size, int flags) noexcept override;
  ssize_t recvmsg(int socket, msghdr* message, int flags) noexcept override;
  int shutdown(int socket, int how) noexcept override;
  int unacknowledged(int socket, int* bytes) noexcept override;
  int unread(int socket, int* bytes) noexcept override;
  int epoll_create1(int flags) noexcept override;
  int epoll_ctl(int epoll, int operation, int descriptor, epoll_event* event) noexcept override;
  int epoll_wait(int epoll, epoll_event* events, int most, int timeout_ms) noexcept override;
  int poll(pollfd* handles, nfds_t count, int timeout_ms) noexcept override;
  int timerfd_create(int clock, int flags) noexcept override;
  int timerfd_settime(int timer, int flags, const itimerspec* at, itimerspec* before) noexcept override;
  int eventfd(unsigned initial, int flags) noexcept override;
  ssize_t read(int descriptor, void* data, std::size_t size) noexcept override;
  ssize_t write(int descriptor, const void* data, std::size_t size) noexcept override;
  int close(int descriptor) noexcept override;
  int sched_yield() noexcept override { return 0; }
  /// Not pretended, so that ranks of one host go over connections.
  int pipe2(int*, int) noexcept override { return failed_with(ENOSYS); }
  int pidfd_open(pid_t, unsigned) noexcept override { return failed_with(ENOSYS); }
  int sched_getcpu() noexcept override { return static_cast<int>(random_() % 2); }
  ssize_t getrandom(void* data, std::size_t size, unsigned flags) noexcept override;
  pid_t getpid() noexcept override { return process_of(host_); }
  int memfd_create(const char* name, unsigned flags) noexcept override;
  int ftruncate(int file, off_t size) noexcept override;
  int fcntl(int file, int command, int argument) noexcept override;
  int open(const char* path, int flags) noexcept override;
  int stat(const char* path, struct ::stat* status) noexcept override;
  int fstat(int file, struct ::stat* status) noexcept override;
  void* mmap(void* at, std::size_t size, int protection, int flags, int file, off_t offset) noexcept override;
  int munmap(void* at, std::size_t size) noexcept override;
  /// Pages come when they are touched: a schedule touches few.
  int madvise(void*, std::size_t, int) noexcept override { return 0; }
  ssize_t process_vm_readv(pid_t process, const iovec* mine, unsigned long count, const iovec* theirs,
                           unsigned long their_count, unsigned long flags) noexcept override;

 private:
  struct Datagram {
    Address own;
  };
  struct Timer {
    std::optional<TimePoint> ends;
  };
  struct Event {
    std::uint64_t count = 0;
  };
  struct Watched {
    int descriptor = -1;
    Socket* socket = nullptr;  // open: who closes it takes it out
    std::uint32_t events = 0;
    std::uint64_t data = 0, in_seen = 0, out_seen = 0;
  };
  struct Epoll {
    std::vector<Watched> watched;
  };
  using Body = std::variant<std::monostate, std::shared_ptr<Socket>, Datagram, Timer, Event, Epoll,
                            std::shared_ptr<RealFile>>;
  struct File {
    unsigned host = 0;
    Body body;
  };

  struct Mapping {
    unsigned host = 0;
    void* at = nullptr;
    std::size_t size = 0;
    std::shared_ptr<RealFile> file;
  };

  static const char* kind_of(const Body& body) noexcept;
  int open(Body body);
  File* file(int descriptor) noexcept;
  std::shared_ptr<Socket>* held_stream(int descriptor) noexcept;
  Socket* stream(int descriptor) noexcept;
  bool fails(Call call) noexcept;
  bool fails(Call call, const Socket& socket) noexcept;
  static pid_t new_processes() noexcept;
  std::shared_ptr<RealFile> real_file(int descriptor) noexcept;
  std::optional<unsigned> living_host_of(pid_t process) const noexcept;
  Address place_of(Address to) const noexcept;
  void write_address(Address from, sockaddr* to, socklen_t* length) const noexcept;
  void take_mappings_from(unsigned host) noexcept;
  std::size_t some_of(std::size_t bytes) noexcept;
  std::uint32_t events_of(const Socket& socket) const noexcept;
  void give_way() noexcept;
  short ready_events(int descriptor, short wanted) noexcept;
  void close_stream(const std::shared_ptr<Socket>& socket);
  std::uint32_t news_of(const Watched& one) const noexcept;
  bool has_news(const Epoll& epoll) noexcept;
  ssize_t write_parts(int socket, const iovec* parts, std::size_t count) noexcept;
  ssize_t read_parts(int socket, const iovec* parts, std::size_t count, bool peek) noexcept;

  FakeClock& clock_;
  Network& network_;
  std::mt19937_64& random_;
  Sleep sleep_;
  std::vector<File> files_ = std::vector<File>(3);  // 0 to 2 are never given out
  std::vector<bool> used_ = std::vector<bool>(3, true);
  std::vector<std::size_t> order_;  // of what epoll_wait looks at
  std::map<std::pair<unsigned, Call>, std::pair<int, int>> injected_;
  std::array<bool, 16> killed_{}, interrupted_{};
  unsigned host_ = 0, short_one_in_ = 0;
  bool loses_bytes_ = false, loses_lone_bytes_ = false, one_machine_ = false;
  const pid_t first_process_ = new_processes();
  std::function<void()> step_;
  std::vector<Mapping> mappings_;
  std::optional<TimePoint> read_failed_;
  std::array<std::uint64_t, 16> moved_{};
};

}  // namespace tombolo::simulation
