// Ctrl-C in the middle: remembered here, acted on at the next safe place, so that destructors run and nothing
// is left behind.
#pragma once

#include <csignal>

namespace tombolo::tools::demo {

/// Thrown by InterruptWatch::check().
struct Interrupted {
  int signal_number = 0;
  /// 128 + the signal's number, as shells do.
  int exit_code() const noexcept { return 128 + signal_number; }
};

/// While it lives, SIGINT, SIGTERM and SIGHUP are noted instead of ending the process. At most one at a time;
/// the main thread's.
class InterruptWatch {
 public:
  InterruptWatch();
  ~InterruptWatch();
  InterruptWatch(const InterruptWatch&) = delete;
  InterruptWatch& operator=(const InterruptWatch&) = delete;

  /// Throws Interrupted when a signal came.
  void check() const;

 private:
  struct sigaction old_[3];
};

}  // namespace tombolo::tools::demo
