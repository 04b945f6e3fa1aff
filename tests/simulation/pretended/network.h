// A pretended network of hosts: TCP as programs see it through their kernel, with seeded delay, bandwidth,
// resets and silence. It knows no file descriptors; pretended_kernel.h puts these in front of it.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <map>
#include <memory>
#include <optional>
#include <random>
#include <span>
#include <utility>
#include <vector>

#include "base/clock.h"

namespace tombolo::simulation {

/// An IPv4 address and a port, in host byte order.
struct Address {
  std::uint32_t host = 0;
  std::uint16_t port = 0;
  friend auto operator<=>(const Address&, const Address&) = default;
};

/// 10.0.NIC.HOST+1: NICs of equal number reach each other.
constexpr std::uint32_t address_of(unsigned host, unsigned nic) {
  return 10U << 24 | nic << 8 | (host + 1);
}
constexpr unsigned host_of(std::uint32_t address) {
  return (address & 0xff) - 1;
}
constexpr unsigned nic_of(std::uint32_t address) {
  return address >> 8 & 0xff;
}
inline constexpr std::size_t kNicNumbers = 256;  ///< that an address can name

/// The way between the NICs of one number.
struct Path {
  Duration delay = std::chrono::microseconds(50);  ///< one way
  double bytes_per_second = 1e9;
  bool silent = false;  ///< nothing gets through, and nobody is told
  TimePoint silent_since{};
};

/// The bytes of a TCP connection in one direction.
struct Pipe {
  struct Segment {
    std::size_t bytes = 0;
    TimePoint arrives{};
  };
  std::vector<std::byte> bytes;    ///< written and not yet read; the first `arrived` can be read
  std::size_t head = 0;            ///< of `bytes` that were read already
  std::size_t arrived = 0;         ///< bytes from `head` on
  std::vector<Segment> under_way;  ///< the bytes behind those, in order; few
  TimePoint last_arrival{};
  TimePoint sent_since{};        ///< when the oldest segment under way was sent, or an answer came last
  std::optional<TimePoint> end;  ///< when the end of the stream arrives, once all bytes have
  bool ended = false;            ///< it has arrived
  std::size_t room = 0;          ///< receive buffer
  std::size_t send_room = 0;

  std::size_t unacknowledged() const noexcept { return bytes.size() - head - arrived; }
};

/// One socket of a TCP connection.
struct Socket {
  Socket() = default;
  ~Socket();
  Socket(const Socket&) = delete;
  Socket& operator=(const Socket&) = delete;

  enum class State { kFresh, kListening, kConnecting, kConnected, kDead };
  State state = State::kFresh;
  Address own, peer;
  int error = 0;  ///< SO_ERROR, given out once
  bool write_ended = false, read_ended = false;
  bool reset_on_close = false;
  // kListening
  std::size_t backlog = 0;
  std::deque<std::shared_ptr<Socket>> waiting;
  // kConnecting
  TimePoint next_try{};
  Duration pause{};
  std::optional<TimePoint> answered;
  // kConnected, kDead
  std::shared_ptr<Pipe> in, out;
  Socket* other = nullptr;  ///< the peer's, for as long as that is there
  std::optional<TimePoint> reset_arrives;
  TimePoint keepalive_since{};
  Duration keepalive_idle{}, keepalive_interval{};
  int keepalive_probes = 0;
  bool open = true;        ///< a descriptor refers to it
  bool cut_there = false;  ///< a fault has ended the peer's socket, of which this one has not heard yet
  bool cut_here = false;   ///< a fault has reset this socket, or the peer's and this one has heard of it
  // What epoll's edges are counted by.
  std::uint64_t in_edges = 0, out_edges = 0;
  bool full = false;  ///< the last write had no room
  // Network::settle() passes over a socket that is as it was when it was settled, and for which nothing is
  // due.
  bool changed = true;     ///< the socket, or its peer's, since it was settled
  bool due_is_old = true;  ///< it has changed since `due` was computed
  TimePoint due{};         ///< when something happens to it by itself

  /// Whoever changes what Network::settle() or next() look at says so. Of its peer's socket they look at the
  /// state, at what it has written, and at whether it is there.
  void note_change() noexcept { changed = due_is_old = true; }
  bool readable() const noexcept;
  bool writable() const noexcept;
};

/// Owned and used by one thread. Times come from `clock`, which the owner moves.
class Network {
 public:
  Network(FakeClock& clock, std::mt19937_64& random) : clock_(clock), random_(random) {}

  Path& path(unsigned nic) { return paths_.at(nic); }
  void set_silent(unsigned nic, bool silent);
  /// Whether connects to that host are answered by nobody, as a firewall would have it.
  void set_closed(unsigned host, bool closed) {
    closed_[host] = closed;
    changed_ = true;
  }

  bool listen(const std::shared_ptr<Socket>& socket, std::size_t backlog);
  std::uint16_t free_port(std::uint32_t host);
  void connect(const std::shared_ptr<Socket>& socket, Address to);
  /// Returns bytes taken, or -errno.
  std::ptrdiff_t write(Socket& socket, std::span<const std::byte> bytes);
  /// Returns bytes read, 0 at the stream's end, or -errno.
  std::ptrdiff_t read(Socket& socket, std::span<std::byte> into, bool peek);
  bool listens(Address at) const {
    const auto found = listeners_.find(at);
    return found != listeners_.end() && !found->second.expired();
  }
  /// SO_ERROR: gives the error out, and forgets it.
  int take_error(Socket& socket) noexcept;
  void shut_write(Socket& socket);
  void close(const std::shared_ptr<Socket>& socket);
  /// A reset reaches each of the two ends where wanted, at once.
  void reset(Socket& socket, bool this_end, bool other_end);
  /// A call on that socket was made to fail, which the transport takes for the stream's end, or the transport
  /// has given the stream up because of a fault.
  void note_cut(const Socket& socket) noexcept;
  /// When a fault last cut a stream, or a process learnt of such a cut.
  TimePoint last_cut() const noexcept { return last_cut_; }
  /// For how long the peer's host has left something unanswered.
  Duration unanswered(const Socket& socket) const;

  /// Lets everything arrive that is due by now.
  void settle();
  /// When something arrives next; nothing where nothing is under way.
  std::optional<TimePoint> next();

 private:
  void settle(Socket& socket);
  void settle(Socket& reader, Pipe& pipe, const Path& path);
  TimePoint due_of(const Socket& socket) const;
  TimePoint soonest();
  void try_connect(Socket& socket, TimePoint now);
  void establish(Socket& connecting, const std::shared_ptr<Socket>& listener, TimePoint now);
  void die(Socket& socket, int error);
  /// Something has changed that the peer's socket looks at, too.
  static void note_change(Socket& socket) noexcept {
    socket.note_change();
    if (socket.other != nullptr) socket.other->note_change();
  }
  void send_reset(Socket& to, const Path& path);
  const Path& path_of(const Socket& socket) const noexcept { return paths_[nic_of(socket.own.host)]; }

  FakeClock& clock_;
  std::mt19937_64& random_;
  std::array<Path, kNicNumbers> paths_;
  std::map<unsigned, bool> closed_;
  std::map<Address, std::weak_ptr<Socket>> listeners_;
  std::vector<std::shared_ptr<Socket>> sockets_;
  std::uint16_t next_port_ = 30000;
  // settle() has nothing to do before `due_`, unless something has changed.
  TimePoint due_ = TimePoint::max();
  bool changed_ = true;
  TimePoint last_cut_{};
};

}  // namespace tombolo::simulation
