// What happens beside a communicator's calls: callbacks, and the thread that makes progress between calls.
#include <exception>
#include <utility>

#include "base/error.h"
#include "collectives/engine/communicator_state.h"
#include "transport/kernel.h"

namespace tombolo::collectives {
namespace {

/// The communicator (its State) whose callback this thread is in.
thread_local const void* calling_back_in = nullptr;

}  // namespace

Communicator::Call::Call(State& state) : state_(state) {
  // Another thread may call back meanwhile; of itself a thread knows.
  if (state.has_called_back.load(std::memory_order_relaxed) && calling_back_in == &state) {
    fail(
        Cause::kInvalidUsage,
        "a callback makes a call on the communicator whose collective it is told of: callbacks leave that to "
        "their caller");
  }
  if (state_.thread) state_.thread->enter();
}

bool Communicator::calling_back() const noexcept {
  return calling_back_in == state_.get();
}

bool Communicator::State::busy() const noexcept {
  return phase == Phase::kOpen && (!channels->idle() || (host_calls && !host_calls->idle()) ||
                                   !messages->idle() || !staged.empty() || !deferred.empty());
}

void Communicator::State::call_back(const Error* why) noexcept {
  if (callbacks == 0) return;
  has_called_back.store(true, std::memory_order_relaxed);
  const void* const before = std::exchange(calling_back_in, this);
  collectives.for_each_open([&](PendingCollective& one) {
    const bool is_done = done(one.started);
    if (!one.callback || (why == nullptr && !is_done)) return;
    --callbacks;
    std::exchange(one.callback, nullptr)(is_done ? nullptr : why);
  });
  calling_back_in = before;
}

ProgressThread::Outcome Communicator::State::work(ProgressThread& by) noexcept {
  const auto what = [] { return std::string("progress"); };
  try {
    bool idle = false;
    TimePoint idle_since{};
    for (;;) {
      const bool moved = turn();
      if (by.wanted() || !busy()) return ProgressThread::Outcome::kAgain;
      if (moved) {
        idle = false;
        continue;
      }
      check_failures(what);
      const TimePoint now = options.router.clock->now();
      if (!std::exchange(idle, true)) idle_since = now;
      if (now - idle_since < spin) {
        transport::kernel().sched_yield();  // as wait_until() does
        continue;
      }
      const auto patience = look_before_sleeping(idle_since, what);
      mesh->check_awaited();
      if (!patience) {
        idle = false;
        continue;
      }
      by.sleep([&] { sleep(*patience); });
    }
  } catch (const Error& error) {
    try {
      if (phase != Phase::kFailed) fail_all_ranks(error.cause(), error.what());
    } catch (const std::exception&) {  // the next call throws it
    }
  } catch (const std::exception& error) {
    try {
      fail_all_ranks(Cause::kInternal, error.what());
    } catch (const std::exception&) {
    }
  }
  return ProgressThread::Outcome::kEnded;
}

}  // namespace tombolo::collectives
