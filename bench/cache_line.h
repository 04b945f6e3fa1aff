// Measures the round trip of one cache line between two processes: the time that two cores of this machine
// need to exchange anything, and so the lower bound for a message through shared memory.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <vector>

namespace tombolo::bench {

/// Must be made before fork(). Both processes then call measure() equally often, one of them leading. Waits
/// by polling.
class CacheLine {
 public:
  /// Throws kSystem where the kernel gives no shared memory.
  CacheLine();

  /// Half of the time of a round trip, seconds: the mean of a few thousand.
  double measure(bool leading);

 private:
  struct Lines;
  struct Unmap {
    void operator()(Lines* lines) const noexcept;
  };
  std::unique_ptr<Lines, Unmap> lines_;
  std::uint64_t told_ = 0;
};

}  // namespace tombolo::bench
