// How long connections that close wait for peers from which nothing comes.
#pragma once

#include <algorithm>
#include <mutex>

#include "base/clock.h"

namespace tombolo::transport::bootstrap {

/// A process's connections close one after the other, and share this patience: where a host has fallen silent
/// it is spent once, and not once for each connection. Thread-safe.
class ClosingPatience {
 public:
  /// What there is when nothing was spent for long. With what grows back meanwhile all that close one after
  /// the other wait less than 2 s.
  static constexpr Duration kMost = std::chrono::milliseconds(1500);

  /// What is left.
  Duration left(TimePoint now) noexcept {
    const std::lock_guard lock(mutex_);
    return kMost - spent_at(now);
  }
  /// A connection has waited so long until now, and nothing has come.
  void spend(Duration waited, TimePoint now) noexcept {
    const std::lock_guard lock(mutex_);
    spent_ = std::min(spent_at(now) + waited, kMost);
    since_ = now;
  }

 private:
  static constexpr int kGrowsBackIn = 10;  // times as long as it took to spend
  Duration spent_at(TimePoint now) const noexcept {
    return std::max(spent_ - (now - since_) / kGrowsBackIn, Duration::zero());
  }

  std::mutex mutex_;
  Duration spent_{};
  TimePoint since_{};
};

}  // namespace tombolo::transport::bootstrap
