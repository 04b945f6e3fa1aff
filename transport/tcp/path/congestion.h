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

/// The rules of TOMBOLO_TCP_CONGESTION: a comma list of [WHERE=]HOW. WHERE is a NIC of this end, "long" or
/// "short" (paths with a round trip of kLongPath and more, or less), or nothing for all; a NIC's rule goes
/// before one for a length, and that before one for all. HOW is "auto", "system" or a name that the kernel
/// knows.
class CongestionRules {
 public:
  /// The rules that say "auto" for all.
  CongestionRules() = default;
  /// Parses `text`. Throws kInvalidUsage, naming `source`.
  CongestionRules(std::string_view text, std::string_view source);

  /// HOW for a stream over that NIC. The view is valid as long as the rules.
  std::string_view choice(std::string_view nic, bool is_long) const noexcept;

 private:
  struct Rule {
    std::string where, how;
  };
  std::vector<Rule> rules_;
};

/// Counts of a stream's packets between two measurements, as its kernel reports them.
struct LossSample {
  std::uint64_t sent = 0;             ///< segments
  std::uint64_t repeated = 0;         ///< of these, those sent again
  Duration round_trip{}, shortest{};  ///< now (smoothed), and the shortest so far
};
/// True where losses, and not a full queue, hold a stream back: packets vanish although the round trip stays
/// near the shortest, on a path that is long enough for a loss to matter. Reno and cubic halve their rate for
/// such a loss and take many round trips to recover.
bool loses_without_queue(const LossSample& sample) noexcept;

/// Sets the congestion control of streams, and warns once where the kernel refuses. Thread-safe.
class Congestion {
 public:
  Congestion(CongestionRules rules, Log log) : rules_(std::move(rules)), log_(std::move(log)) {}

  /// Sets a stream's congestion control. It must be connected, so that its round trip is known.
  void begin(int socket, std::string_view nic) const noexcept;

  /// What look() remembers of a stream from one call to the next.
  struct Watch {
    std::uint64_t sent = 0, repeated = 0;
    bool decided = false;  ///< its congestion control has been chosen for good
  };
  /// To be called now and then for a stream that carries data; each call is a system call. Under "auto", a
  /// stream that has losses without a queue gets what begin() gives to long paths.
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
