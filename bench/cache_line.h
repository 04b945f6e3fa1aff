// One cache line between two processes, there and back: what two cores of this machine take to tell each
// other anything at all, and so the least that a message through shared memory can.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <vector>

namespace tombolo::bench {

/// Made before fork(); both processes then call measure(), as often, one of them leading. Waits busily.
class CacheLine {
 public:
  /// Throws kSystem.
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
