// A limit on the bytes per second through one NIC of this process, shared by all of its connections.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>

#include "base/clock.h"

namespace tombolo::transport::tcp {

/// The limit of one direction: a token bucket, kept as one number (the time at which the bucket would be full
/// again), so that connections in different threads share it without a lock. Thread-safe.
class RateLimit {
 public:
  explicit RateLimit(double bytes_per_second) noexcept;

  /// How many bytes may pass now; 0 until there are enough to be worth a write.
  std::size_t allowance(TimePoint now) const noexcept;
  void consume(std::size_t bytes, TimePoint now) noexcept;
  /// How long it takes until allowance() is above 0.
  Duration until_ready(TimePoint now) const noexcept;
  double bytes_per_second() const noexcept { return rate_ * 1e9; }

 private:
  double gathered(TimePoint now) const noexcept;  // allowance now, in nanoseconds at the full rate
  double rate_;                                   // bytes per nanosecond
  double burst_;                                  // nanoseconds
  double quantum_;                                // nanoseconds
  std::atomic<double> full_at_{0};
};

struct NicRateLimit {
  explicit NicRateLimit(double bytes_per_second) noexcept
      : egress(bytes_per_second), ingress(bytes_per_second) {}
  RateLimit egress, ingress;
};

}  // namespace tombolo::transport::tcp
