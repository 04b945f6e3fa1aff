// Lets a thread that asks in vain, again and again, leave its processor to others.
#pragma once

#include "transport/kernel.h"

namespace tombolo::transport {

/// Counts a thread's calls in which nothing moved, on any of its connections, since the last in which
/// something did. Who feeds or drains a connection may wait for this very processor, and without a yield it
/// gets that only when the thread's time slice ends: two ends on one processor then move a socket's buffer
/// per slice, a sixth of what they move with yields. NCCL's own loop yields in each pass in which nothing
/// moved; other callers do not. Each thread has its own; a yield that finds nobody waiting costs as much as a
/// read of an empty socket.
class Polling {
 public:
  static Polling& of_thread() noexcept {
    static thread_local Polling one;
    return one;
  }

  /// A call that asked the kernel has come to its end. It yields where none of the last kPatience moved
  /// anything, in every kBetweenYields-th call.
  void note(bool moved) noexcept {
    if (moved) {
      in_vain_ = 0;
    } else if (++in_vain_ >= kPatience && in_vain_ % kBetweenYields == 0) {
      kernel().sched_yield();
    }
  }

  /// Calls that ask a socket take about half a microsecond each.
  static constexpr unsigned kPatience = 16, kBetweenYields = 4;

 private:
  unsigned in_vain_ = 0;
};

}  // namespace tombolo::transport
