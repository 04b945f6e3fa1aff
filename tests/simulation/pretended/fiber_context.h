// Where code that runs on a stack of its own stands, and how one goes over to it.
#pragma once

#include <cstddef>
#include <span>

// The way that takes no system call; ucontext's takes two, for the mask of signals. Where the processor keeps
// a second stack of return addresses (-fcf-protection) it would have to be switched, too.
#if defined(__x86_64__) && !(defined(__CET__) && (__CET__ & 2) != 0)
#define TOMBOLO_OWN_CONTEXT 1
#else
#include <ucontext.h>
#endif

namespace tombolo::simulation {

/// Registers that a function keeps for its caller. Signals' masks are the thread's, and not switched.
class FiberContext {
 public:
  FiberContext() = default;
  FiberContext(const FiberContext&) = delete;
  FiberContext& operator=(const FiberContext&) = delete;

  /// Who goes over to this context calls `entry(argument)` on that stack. `entry` never returns.
  void begin(std::span<std::byte> stack, void (*entry)(void*), void* argument) noexcept;
  /// Keeps in `from` where the caller stands, and goes on at `to`; returns once somebody goes over to `from`.
  static void switch_over(FiberContext& from, FiberContext& to) noexcept;

 private:
#ifdef TOMBOLO_OWN_CONTEXT
  void* stack_pointer_ = nullptr;
#else
  static void enter(unsigned high, unsigned low);
  ucontext_t context_{};
  void (*entry_)(void*) = nullptr;
  void* argument_ = nullptr;
#endif
};

}  // namespace tombolo::simulation
