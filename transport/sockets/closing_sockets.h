// The sockets of closed connections, kept until the peer's kernel has all that was sent.
#pragma once

#include <cstddef>
#include <cstdint>
#include <mutex>
#include <span>
#include <vector>

#include "base/clock.h"
#include "transport/descriptor.h"

namespace tombolo::transport::sockets {

/// Closing a socket that holds unread bytes, or that gets some later, resets it. A reset discards what the
/// peer's kernel has not acknowledged yet, such as bytes for which it has no room while the peer posts its
/// receives late. So closed connections leave their sockets here. Thread-safe.
class ClosingSockets {
 public:
  /// A socket is kept at least for so long, unless the peer's kernel has all. After that this end's kernel
  /// still delivers by itself, unless the peer sends something, which would be answered by a reset.
  static constexpr Duration kShortest = std::chrono::milliseconds(250);
  /// The destructor waits only for sockets whose peer took something within this time.
  static constexpr Duration kQuiet = std::chrono::milliseconds(500);

  /// Bytes that one call reads of one socket: of a peer that goes on sending, the rest is left to the next.
  static constexpr std::size_t kMostRead = std::size_t{64} * 1024;
  /// Sockets of closed connections that are kept at once.
  static constexpr std::size_t kMostSockets = 4096;

  enum class WhenFull : std::uint8_t {
    kWait,         ///< the oldest is closed once it has been kept for kShortest, and add() waits for that
    kCloseOldest,  ///< the oldest is closed at once
  };
  struct Room {
    std::size_t sockets;  ///< so many are kept at most; each costs a descriptor
    WhenFull when_full;
  };

  /// `longest`: after so long a socket is closed in any case. The clock outlives the object.
  explicit ClosingSockets(Duration longest, const Clock& clock = Clock::steady(),
                          Room room = {kMostSockets, WhenFull::kWait});
  /// Waits for the sockets that are left, as long as their peers take bytes; at most `longest`.
  ~ClosingSockets();
  ClosingSockets(const ClosingSockets&) = delete;
  ClosingSockets& operator=(const ClosingSockets&) = delete;

  /// Takes over a socket to which nothing more is written but `last_words`. These are copied and written once
  /// there is room. The socket is kept for `longest` at most.
  void add(Descriptor socket, std::span<const std::byte> last_words = {},
           Duration longest = Duration::max()) noexcept;
  /// Moves all sockets and closes those that are done. True while some are left. Reads only so much of what
  /// peers still send, and leaves the rest to the next call.
  bool progress() noexcept;

 private:
  struct Leaving {
    Descriptor socket;
    std::vector<std::byte> rest;  // of the last words
    TimePoint since, moved;
    Duration longest;
    int unacknowledged;
  };
  static bool step(Leaving& one, TimePoint now) noexcept;
  /// Takes over those that have come since. With sweep_mutex_.
  void take_arrived() noexcept;
  /// Closes the oldest socket if it has been kept long enough, or need not be. False where it must stay.
  bool make_room() noexcept;

  Duration longest_;
  const Clock* clock_;
  Room room_;
  // Held while all sockets are moved, which takes long where there are thousands. Taken before mutex_.
  std::mutex sweep_mutex_;
  std::vector<Leaving> leaving_;  // the oldest first
  // Held for an instant: who leaves a socket waits for no sweep.
  std::mutex mutex_;
  std::vector<Leaving> arrived_;  // since the last sweep began
  std::size_t kept_ = 0;          // in both
};

}  // namespace tombolo::transport::sockets
