#include "tools/process/stop_request.h"

#include <atomic>
#include <csignal>
#include <cstdint>
#include <ctime>

#include "tools/process/ending_signals.h"

namespace tombolo::tools {
namespace {

// Written by a signal handler.
std::atomic<bool> requested{false};
/// When the first came of the signals that may end the process: nanoseconds of CLOCK_MONOTONIC; 0: none has.
std::atomic<std::int64_t> first_at{0};
std::int64_t repeated_for = 0;
static_assert(std::atomic<bool>::is_always_lock_free && std::atomic<std::int64_t>::is_always_lock_free);

/// Of what it calls, POSIX says that signal handlers may.
void on_signal(int number) {
  requested = true;
  if (number == SIGUSR1) return;
  timespec time{};
  ::clock_gettime(CLOCK_MONOTONIC, &time);
  const std::int64_t now = time.tv_sec * std::int64_t{1'000'000'000} + time.tv_nsec;
  std::int64_t first = 0;
  if (first_at.compare_exchange_strong(first, now)) return;
  if (now - first < repeated_for) return;
  std::signal(number, SIG_DFL);
  ::raise(number);  // takes effect when this handler returns
}

}  // namespace

void catch_stop_requests(Duration repeated) noexcept {
  repeated_for = std::chrono::nanoseconds(repeated).count();
  struct sigaction action {};
  action.sa_handler = on_signal;
  action.sa_flags = SA_RESTART;
  for (const int number : {SIGINT, SIGTERM, SIGHUP, SIGUSR1})
    if (!is_ignored(number)) ::sigaction(number, &action, nullptr);
}

bool stop_requested() noexcept {
  return requested.load(std::memory_order_relaxed);
}

}  // namespace tombolo::tools
