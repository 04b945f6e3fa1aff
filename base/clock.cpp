#include "base/clock.h"

#include <time.h>

#include <algorithm>
#include <cstddef>
#include <limits>
#include <new>

namespace tombolo {
namespace {

class SteadyClock final : public Clock {
 public:
  TimePoint now() const noexcept override { return std::chrono::steady_clock::now(); }
  TimePoint roughly_now() const noexcept override {
    // As of the kernel's last tick, which it leaves in memory that every process may read. std::chrono's
    // steady clock is the same one, read precisely.
    timespec time{};
    clock_gettime(CLOCK_MONOTONIC_COARSE, &time);
    return TimePoint(std::chrono::seconds(time.tv_sec) + std::chrono::nanoseconds(time.tv_nsec));
  }
};

}  // namespace

const Clock& Clock::steady() noexcept {
  // The clock is never destroyed, because objects that are destroyed at the end of the process may still ask
  // for the time.
  alignas(SteadyClock) static std::byte place[sizeof(SteadyClock)];
  static const Clock& clock = *::new (place) SteadyClock;
  return clock;
}

int Deadline::poll_milliseconds() const noexcept {
  auto left = std::chrono::ceil<std::chrono::milliseconds>(remaining()).count();
  return static_cast<int>(std::min<long long>(left, std::numeric_limits<int>::max()));
}

}  // namespace tombolo
