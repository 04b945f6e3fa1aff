// Actors of a simulation: each has a stack of its own, and runs until it yields.
#pragma once

#include <cstddef>
#include <exception>
#include <functional>
#include <memory>
#include <vector>

#include "tests/simulation/pretended/fiber_context.h"

namespace tombolo::simulation {

/// What the C++ runtime keeps per thread: the exceptions that are being handled, and how many are being
/// thrown
/// (__cxa_eh_globals of the Itanium C++ ABI). Each fiber has its own, since it may yield while it handles
/// one.
struct ExceptionsOfThread {
  void* caught = nullptr;
  unsigned uncaught = 0;
};

/// Runs functions in turns, all in the calling thread. The caller chooses who goes on, so that the order is
/// as deterministic as the caller.
class Fibers {
 public:
  Fibers() = default;
  ~Fibers();
  Fibers(const Fibers&) = delete;
  Fibers& operator=(const Fibers&) = delete;

  /// Adds a fiber that has not run yet; returns its number.
  std::size_t add(std::function<void()> body);
  /// Runs a fiber that has not ended until it yields or ends. Throws what its body throws.
  void run(std::size_t fiber);
  /// Called by a fiber: goes back to run()'s caller.
  void yield();
  bool ended(std::size_t fiber) const noexcept { return fibers_[fiber]->ended; }
  /// The fiber that runs now; npos in run()'s caller.
  std::size_t current() const noexcept { return current_; }
  static constexpr std::size_t npos = static_cast<std::size_t>(-1);

 private:
  struct Fiber {
    FiberContext context;
    std::byte* stack = nullptr;
    std::function<void()> body;
    bool ended = false;
    std::exception_ptr thrown;
    void* fake_stack = nullptr;  // AddressSanitizer's
    ExceptionsOfThread exceptions{};
  };
  static void enter(void* self);
  void body_of(Fiber& fiber);

  std::vector<std::unique_ptr<Fiber>> fibers_;
  FiberContext caller_;
  ExceptionsOfThread caller_exceptions_;
  void* caller_fake_stack_ = nullptr;
  const void* caller_stack_ = nullptr;
  std::size_t caller_stack_bytes_ = 0;
  std::size_t current_ = npos;
};

}  // namespace tombolo::simulation
