// Watches the peer through the control channel: its goodbye comes there, and its end is seen at once when it
// dies without one.
#pragma once

#include <poll.h>

#include <array>
#include <cstddef>
#include <optional>
#include <string>

#include "base/clock.h"
#include "transport/goodbye.h"

namespace tombolo::transport::channel {

/// Does not own the socket, which must outlive it. Belongs to its connection's thread.
class PeerWatch {
 public:
  PeerWatch(int socket, const Clock* clock) noexcept : socket_(socket), clock_(clock) {}

  /// Reads what has come, which takes a system call. Returns what is wrong with it, or an empty text.
  std::string look();
  /// Whether the peer is gone. What it sent before may still be on its way.
  bool closing() const noexcept { return goodbye_.has_value() || ended_; }
  const std::optional<Goodbye>& goodbye() const noexcept { return goodbye_; }
  /// The error that the peer's end causes here. Only once closing().
  std::string ending() const;

  /// Whether to wait for more of what the peer had sent: for two seconds from its end on, or from prolong().
  bool patient() const noexcept { return clock_->now() < until_; }
  void prolong() noexcept;
  void give_up() noexcept { until_ = TimePoint{}; }  ///< nothing more can arrive

  void say(const Goodbye& goodbye) noexcept;
  /// Ends the channel for both ends. That also wakes a thread that polls, because an ended channel is always
  /// ready.
  void shut() noexcept;

 private:
  int socket_;
  const Clock* clock_;
  std::optional<Goodbye> goodbye_;
  bool ended_ = false;
  TimePoint until_{};
  std::array<std::byte, Goodbye::kBytes> word_{};
  std::size_t word_bytes_ = 0;
};

}  // namespace tombolo::transport::channel
