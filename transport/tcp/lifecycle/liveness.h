// Whether the peer of a TCP connection still lives, and each of its streams' paths: timeouts, suspicion,
// pings. Decides from times and from what the owner measured; asks no socket and no clock. Used by one thread
// at a time.
#pragma once

#include <cstddef>
#include <optional>
#include <vector>

#include "base/clock.h"

namespace tombolo::transport::tcp {

class Liveness {
 public:
  explicit Liveness(Duration idle_timeout) noexcept : idle_timeout_(idle_timeout) {}

  /// Something moved, or its absence counts from now on. Reads no clock; the next look() dates it.
  void moved() noexcept { moved_ = true; }
  /// Takes note of the time. Whether something has moved since the last call.
  bool look(TimePoint now) noexcept;
  /// The absence of movement counts from this time on.
  void restart(TimePoint now) noexcept;
  Duration quiet_for(TimePoint now) const noexcept { return now - last_moved_; }

  /// When the connection is due for a check that is made at most so often.
  TimePoint next_check(Duration every) const noexcept { return last_checked_ + every; }
  void checked(TimePoint now) noexcept { last_checked_ = now; }
  /// Whether the check of its streams' paths is due, which is made at most so often; it counts as done.
  bool paths_due(TimePoint now, Duration every) noexcept { return due(last_paths_, now, every); }
  /// The same for a look at streams that the peer opens.
  bool arrivals_due(TimePoint now, Duration every) noexcept { return due(last_arrivals_, now, every); }

  /// A stream has a new socket.
  void joined(std::size_t stream, TimePoint now);
  /// Whether the stream's path answers nothing any more: its kernel has had no answer for `unanswered`, zero
  /// where it waits for none, and the path's round trip is that long.
  bool path_is_silent(std::size_t stream, TimePoint now, Duration unanswered, Duration round_trip);

  /// No stream is live, since now.
  void alone(TimePoint now) noexcept { alone_since_ = now; }
  void not_alone() noexcept { alone_since_.reset(); }
  bool is_alone() const noexcept { return alone_since_.has_value(); }

  enum class Verdict {
    kWait,
    kHostSilent,  ///< the peer's host has not answered for the idle timeout
    kStalled,     ///< the peer's host answers, but its process takes nothing
    kVanished,    ///< the peer's process is gone
    kNoneBack,    ///< all streams broke, and none came back
  };
  /// The owner waits for the peer, though nothing need be pending here; this holds until overdue() has been
  /// called.
  void asked() noexcept { asked_ = true; }
  bool is_asked() const noexcept { return asked_; }
  /// Whether nothing has moved for the idle timeout although this end `waits`, or its owner does, so that
  /// judge() should be asked.
  bool overdue(TimePoint now, bool waits) noexcept;
  /// The peer's host has not answered for `silent` on the stream where it answered last. A waiting receive
  /// alone is no failure while it answers: the peer may compute. `sends`: something has not reached the peer.
  Verdict judge(TimePoint now, Duration silent, bool sends) const noexcept;

  /// What is known while no stream is live.
  struct WhileAlone {
    bool all_ended = false;       ///< the peer's kernel ended all streams in order, without a goodbye
    bool can_ask = false;         ///< this end knows an address of the peer's
    std::size_t turned_away = 0;  ///< attempts in a row that the other side ended on purpose
  };
  Duration patience(const WhileAlone& what) const noexcept;
  Verdict judge_alone(TimePoint now, const WhileAlone& what) const noexcept;

  /// Whether streams whose end lies behind chunks that wait for receives should be given up. `dialing`: an
  /// attempt to open a stream is under way, which may still bring what this end waits for.
  bool gives_up_ended(TimePoint now, bool dialing) const noexcept;

  /// Whether an end that only waits should test the path now; it counts as done, and the next is due later.
  bool ping_due(TimePoint now) noexcept;

 private:
  static bool due(TimePoint& last, TimePoint now, Duration every) noexcept;

  Duration idle_timeout_;
  bool asked_ = false;
  bool moved_ = true;  // since `last_moved_` was taken
  TimePoint last_moved_{}, last_checked_{}, last_paths_{}, last_arrivals_{}, last_ping_{};
  Duration ping_after_{};
  std::optional<TimePoint> alone_since_;
  std::vector<TimePoint>
      silent_since_;  // by stream: its kernel has waited for an answer since then, or later
};

}  // namespace tombolo::transport::tcp
