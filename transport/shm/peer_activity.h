// Whether the process at the other end runs while this one does, as all connections to it have seen.
#pragma once

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdint>
#include <memory>
#include <utility>

#include "base/clock.h"

namespace tombolo::transport::shm {

/// A connection that sees its peer make progress twice within this time has a peer that runs beside it. A
/// part of a message takes a reader 0.07 ms (256 KiB out of the cache, AMD EPYC); a process that
/// shares the processor gets it for some milliseconds before the peer gets it back.
inline constexpr Duration kPatience = std::chrono::microseconds(200);

/// Shared by a process's connections to one peer process, since a peer that serves another connection makes
/// progress on that one only. Any thread may use it.
class PeerActivity {
 public:
  /// The one for that process, as long as any connection has it.
  static std::shared_ptr<PeerActivity> of(std::int64_t process);

  /// The peer runs now.
  void seen(TimePoint now) noexcept {
    if (now - last_seen() > kPatience) set(since_, now);
    set(last_, now);
  }
  TimePoint last_seen() const noexcept { return get(last_); }
  /// Since when it has been seen without a pause, until last_seen().
  TimePoint since() const noexcept { return get(since_); }

 private:
  using Time = std::atomic<Duration::rep>;
  static void set(Time& to, TimePoint time) noexcept {
    to.store(time.time_since_epoch().count(), std::memory_order_relaxed);
  }
  static TimePoint get(const Time& from) noexcept {
    return TimePoint(Duration(from.load(std::memory_order_relaxed)));
  }
  Time since_{0}, last_{0};
};

/// What one connection knows of it.
class PeerWatch {
 public:
  enum class State {
    kRuns,
    kFull,  ///< there is no room for what is to be sent, as is usual where the reader is the slower end
    kAway,  ///< it was so for long: the peer waits for a processor, perhaps for this one, or does other work
  };
  /// How long a peer has to be seen running until it is not taken for away any more. It is twice as long
  /// where the peer was away again within the longest time, because it then shares its processor; a time
  /// slice is some milliseconds.
  static constexpr Duration kShortest = std::chrono::microseconds(250),
                            kLongest = std::chrono::milliseconds(4);

  explicit PeerWatch(std::shared_ptr<PeerActivity> activity) noexcept : activity_(std::move(activity)) {}

  State state() noexcept {
    if (state_ == State::kAway && activity_->last_seen() - std::max(since_, activity_->since()) >= doubt_) {
      state_ = State::kRuns;
      believed_ = activity_->last_seen();
    }
    return state_;
  }
  /// The peer has made progress since the last call.
  void progressed(TimePoint now) noexcept {
    if (now - progressed_ < kPatience) activity_->seen(now);
    progressed_ = now;
  }
  /// There is no room now.
  void full(TimePoint now) noexcept {
    if (state_ == State::kRuns) {
      state_ = State::kFull;
      since_ = now;
    } else if (state_ == State::kFull && quiet(now)) {
      be_away(now);
    }
  }
  /// There was room again.
  void room(TimePoint now) noexcept {
    if (state_ != State::kFull) return;
    if (quiet(now))
      be_away(now);
    else
      state_ = State::kRuns;
  }
  /// This end slept while there was no room.
  void slept(TimePoint now) noexcept {
    if (state_ == State::kFull) be_away(now);
  }

 private:
  bool quiet(TimePoint now) const noexcept {
    return now - std::max(since_, activity_->last_seen()) >= kPatience;
  }
  void be_away(TimePoint now) noexcept {
    doubt_ = now - believed_ < kLongest ? std::min(2 * doubt_, kLongest) : kShortest;
    state_ = State::kAway;
    since_ = now;
  }

  std::shared_ptr<PeerActivity> activity_;
  State state_ = State::kRuns;
  TimePoint since_{};     // of kFull and kAway
  TimePoint believed_{};  // to run again, the last time
  Duration doubt_ = kShortest;
  TimePoint progressed_{};  // last
};

}  // namespace tombolo::transport::shm
