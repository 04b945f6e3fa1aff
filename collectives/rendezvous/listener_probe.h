// Whether a process still listens somewhere, without a word to it: the kernel of its host answers for it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "base/clock.h"
#include "transport/descriptor.h"

namespace tombolo::collectives {

/// Asks by a connection of its own, which it keeps, so that the end of the process is seen. One thread at a
/// time.
class ListenerProbe {
 public:
  enum class Answer {
    kNone,     ///< so far: its host may be gone, or slow
    kListens,  ///< or did when it was looked at last
    kGone,     ///< the host says that nobody listens there. Final
  };

  /// `address` is in digits. Asks nothing before the first look().
  ListenerProbe(std::string address, std::uint16_t port) : address_(std::move(address)), port_(port) {}
  /// What is known now; never blocks.
  Answer look();
  /// What was known at the last look().
  Answer last() const noexcept { return last_; }
  /// Whether it has a connection, that may be under way.
  bool connected() const noexcept { return static_cast<bool>(socket_); }
  /// Ends the connection; the next look() asks again.
  void rest() noexcept { socket_.reset(); }

 private:
  void connect();
  Answer outcome();

  std::string address_;
  std::uint16_t port_;
  transport::Descriptor socket_;
  Answer last_ = Answer::kNone;
};

/// Probes of many processes, which take turns: a job may have more of them than this process may have
/// descriptors. One thread at a time.
class ListenerProbes {
 public:
  /// Connections at a time.
  static constexpr std::size_t kMost = 64;

  explicit ListenerProbes(const Clock& clock = Clock::steady()) : clock_(clock) {}
  void add(ListenerProbe probe) { all_.push_back(std::move(probe)); }
  /// As ListenerProbe::look() of the one that was added as that. Looks further at those that are looked at
  /// again and again.
  ListenerProbe::Answer look(std::size_t which);

 private:
  struct Turn {
    std::size_t which;
    TimePoint since;
  };
  bool find_room(TimePoint now);

  const Clock& clock_;
  std::vector<ListenerProbe> all_;
  std::vector<Turn> turns_;  // of those that are connected, in the order in which they began
};

}  // namespace tombolo::collectives
