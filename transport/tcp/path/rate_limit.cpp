#include "transport/tcp/path/rate_limit.h"

#include <algorithm>

namespace tombolo::transport::tcp {
namespace {

// How much of the rate a burst may use at once: long enough that a loaded machine's scheduling does not
// reduce the rate, short enough that a short message is limited too, and at least one full-size write.
constexpr double kBurstNanoseconds = 20e6;
constexpr double kLeastBurstBytes = 64 * 1024;
// A smaller share of the burst is not worth a system call.
constexpr double kQuantumFraction = 0.25;

double nanoseconds(TimePoint at) noexcept {
  return static_cast<double>(at.time_since_epoch().count());
}

}  // namespace

RateLimit::RateLimit(double bytes_per_second) noexcept
    : rate_(bytes_per_second / 1e9),
      burst_(std::max(kBurstNanoseconds, kLeastBurstBytes / rate_)),
      quantum_(burst_ * kQuantumFraction) {}

double RateLimit::gathered(TimePoint now) const noexcept {
  return std::min(burst_, burst_ - (full_at_.load(std::memory_order_relaxed) - nanoseconds(now)));
}

std::size_t RateLimit::allowance(TimePoint now) const noexcept {
  double time = gathered(now);
  return time < quantum_ ? 0 : static_cast<std::size_t>(time * rate_);
}

void RateLimit::consume(std::size_t bytes, TimePoint now) noexcept {
  double full_at = full_at_.load(std::memory_order_relaxed);
  double cost = static_cast<double>(bytes) / rate_;
  while (!full_at_.compare_exchange_weak(full_at, std::max(full_at, nanoseconds(now)) + cost,
                                         std::memory_order_relaxed)) {
  }
}

Duration RateLimit::until_ready(TimePoint now) const noexcept {
  double missing = quantum_ - gathered(now);
  return missing <= 0 ? Duration::zero() : Duration(static_cast<std::int64_t>(missing) + 1);
}

}  // namespace tombolo::transport::tcp
