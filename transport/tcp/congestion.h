// Which congestion control each stream has: what its end does after a loss, and how it finds the path's rate.
#pragma once

#include <atomic>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/clock.h"
#include "base/log.h"

namespace tombolo::transport::tcp {

/// What TOMBOLO_TCP_CONGESTION says: a comma list of [WHERE=]HOW. WHERE is a NIC of this end, "long" or
/// "short" (paths with a round trip of kLongPath and more, or less), or nothing for all; a NIC goes before a
/// length, a length before all. HOW is "auto", "system" or a name that the kernel knows.
class CongestionRules {
 public:
  /// "auto" for all.
  CongestionRules() = default;
  /// Throws kInvalidUsage, naming `source`.
  CongestionRules(std::string_view text, std::string_view source);

  /// Valid as long as the rules.
  std::string_view choice(std::string_view nic, bool is_long) const noexcept;

 private:
  struct Rule {
    std::string where, how;
  };
  std::vector<Rule> rules_;
};

/// A stream's packets between two looks, in its kernel's words.
struct LossSample {
  std::uint64_t sent = 0;             ///< segments
  std::uint64_t repeated = 0;         ///< of these
  Duration round_trip{}, shortest{};  ///< now (smoothed), and ever
};
/// True where losses, not a full queue, hold a stream back: packets vanish although the round trip stays near
/// the shortest, on a path that is long enough for a loss to cost. Reno and cubic halve their rate for such a
/// loss and take many round trips to come back.
bool loses_without_queue(const LossSample& sample) noexcept;

/// Sets it, and says once what the kernel refuses. Thread-safe.
class Congestion {
 public:
  Congestion(CongestionRules rules, Log log) : rules_(std::move(rules)), log_(std::move(log)) {}

  /// Sets a stream's congestion control. It must be connected, so that its round trip is known.
  void begin(int socket, std::string_view nic) const noexcept;

  /// What look() remembers of a stream between two calls.
  struct Watch {
    std::uint64_t sent = 0, repeated = 0;
    bool decided = false;  ///< its congestion control has been chosen for good
  };
  /// For a stream that carries data, now and then (a system call each): under "auto", one that loses without
  /// a queue gets what begin() gives long paths.
  void look(int socket, std::string_view nic, Watch& watch) const noexcept;

 private:
  void set(int socket, std::string_view nic, std::string_view name, bool asked_for) const noexcept;

  CongestionRules rules_;
  Log log_;
  mutable std::atomic<bool> told_{false};
};

/// The congestion control that a stream has now; empty where unknown.
std::string congestion_of(int socket);

}  // namespace tombolo::transport::tcp
