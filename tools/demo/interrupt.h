// Handles Ctrl-C: a signal is noted here and acted on at the next call of check(), so that destructors run
// and nothing is left behind.
#pragma once

#include <csignal>

namespace tombolo::tools::demo {

/// Thrown by InterruptWatch::check().
struct Interrupted {
  int signal_number = 0;
  /// 128 + the signal's number, as shells do.
  int exit_code() const noexcept { return 128 + signal_number; }
};

/// While it lives, those of SIGINT, SIGTERM and SIGHUP that were not ignored are noted instead of ending the
/// process. At most one object exists at a time, in the main thread.
class InterruptWatch {
 public:
  InterruptWatch();
  ~InterruptWatch();
  InterruptWatch(const InterruptWatch&) = delete;
  InterruptWatch& operator=(const InterruptWatch&) = delete;

  /// Throws Interrupted where a signal has come.
  void check() const;

 private:
  struct sigaction old_[3];
};

}  // namespace tombolo::tools::demo
