// A clock for tests of deadlines: what comes before the wait that a test is about takes none of its time,
// however slow the machine.
#pragma once

#include <algorithm>
#include <atomic>
#include <mutex>

#include "base/clock.h"

namespace tombolo::collectives::test {

/// The steady clock, which a test may hold and move on. Held for kLongest it goes on by itself, so that what
/// waits in vain ends. Thread-safe.
class HeldClock final : public Clock {
 public:
  static constexpr Duration kLongest = std::chrono::seconds(60);

  TimePoint now() const noexcept override {
    const std::lock_guard lock(mutex_);
    return time();
  }
  void hold() noexcept {
    const std::lock_guard lock(mutex_);
    at_ = time();
    held_ = true;
  }
  void let_go() noexcept {
    const std::lock_guard lock(mutex_);
    ahead_ = time() - Clock::steady().now();
    held_ = false;
  }
  void advance(Duration by) noexcept {
    const std::lock_guard lock(mutex_);
    ahead_ += by;
    at_ += by;
  }

 private:
  TimePoint time() const noexcept {
    const TimePoint running = Clock::steady().now() + ahead_;
    return held_ ? std::max(at_, running - kLongest) : running;
  }

  mutable std::mutex mutex_;
  bool held_ = false;
  TimePoint at_;      // while it is held
  Duration ahead_{};  // of the steady clock
};

/// Lets a held clock go once so many have come.
class GoesOnceAllHaveCome {
 public:
  GoesOnceAllHaveCome(HeldClock& clock, int awaited) : clock_(clock), awaited_(awaited) { clock_.hold(); }
  void comes() noexcept {
    if (++come_ == awaited_) clock_.let_go();
  }

 private:
  HeldClock& clock_;
  int awaited_;
  std::atomic<int> come_{0};
};

}  // namespace tombolo::collectives::test
