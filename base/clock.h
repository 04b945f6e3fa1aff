// Time as an argument: protocol logic takes a Clock, so that tests need no sleeps.
#pragma once

#include <atomic>
#include <chrono>

namespace tombolo {

using Duration = std::chrono::nanoseconds;
using TimePoint = std::chrono::time_point<std::chrono::steady_clock, Duration>;

inline double to_seconds(Duration duration) {
  return std::chrono::duration<double>(duration).count();
}
inline Duration from_seconds(double seconds) {
  return std::chrono::duration_cast<Duration>(std::chrono::duration<double>(seconds));
}

/// A source of time. Its functions may be called from any thread.
class Clock {
 public:
  virtual ~Clock() = default;
  virtual TimePoint now() const noexcept = 0;
  /// The time as it was some milliseconds ago at most, which costs less: for intervals of more than that.
  virtual TimePoint roughly_now() const noexcept { return now(); }
  /// The machine's monotonic clock; lives as long as the process.
  static const Clock& steady() noexcept;
};

/// A clock that moves only by advance(). Thread-safe.
class FakeClock final : public Clock {
 public:
  TimePoint now() const noexcept override { return TimePoint(Duration(now_.load())); }
  void advance(Duration by) noexcept { now_ += by.count(); }

 private:
  std::atomic<Duration::rep> now_{0};
};

/// A point in time after which a wait gives up.
class Deadline {
 public:
  /// The deadline that passes after `duration`. The clock must outlive it.
  static Deadline after(Duration duration, const Clock& clock = Clock::steady()) {
    return Deadline(clock, clock.now() + duration, duration);
  }
  bool passed() const noexcept { return clock_->now() >= at_; }
  /// The time until then; never negative.
  Duration remaining() const noexcept {
    auto left = at_ - clock_->now();
    return left > Duration::zero() ? left : Duration::zero();
  }
  /// Milliseconds for poll(2): rounded up, so that a wait never wakes just before the deadline and spins.
  int poll_milliseconds() const noexcept;
  /// The duration it was made with, for messages.
  Duration allowed() const noexcept { return allowed_; }

 private:
  Deadline(const Clock& clock, TimePoint at, Duration allowed) : clock_(&clock), at_(at), allowed_(allowed) {}
  const Clock* clock_;
  TimePoint at_;
  Duration allowed_;
};

}  // namespace tombolo
