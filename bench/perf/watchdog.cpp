#include "bench/perf/watchdog.h"

#include <chrono>

namespace tombolo::bench {

Watchdog::Watchdog(const api::Communicator& communicator, int seconds) {
  if (seconds == 0) return;
  thread_ = std::thread([this, &communicator, seconds] {
    std::unique_lock lock(mutex_);
    if (done_signal_.wait_for(lock, std::chrono::seconds(seconds), [this] { return done_; })) return;
    tomboloCommAbort(communicator.get());
  });
}

Watchdog::~Watchdog() {
  if (!thread_.joinable()) return;
  {
    const std::lock_guard lock(mutex_);
    done_ = true;
  }
  done_signal_.notify_one();
  thread_.join();
}

}  // namespace tombolo::bench
