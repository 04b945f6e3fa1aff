// SIGINT, SIGTERM and SIGHUP as something to poll(2) for; SIGPIPE as something to do without.
#pragma once

#include <signal.h>

#include "tools/process/subprocess.h"

namespace tombolo::tools {

/// Blocks them for the calling thread as long as it lives, and reads them from a descriptor instead. They
/// must be blocked in the process's other threads too, or these get them.
class EndingSignals {
 public:
  /// Throws kSystem.
  EndingSignals();
  ~EndingSignals();
  EndingSignals(const EndingSignals&) = delete;
  EndingSignals& operator=(const EndingSignals&) = delete;

  /// Readable when one has come.
  int handle() const noexcept { return handle_.get(); }
  /// The next one, or 0.
  int next() const noexcept;
  /// The thread's mask before, for children.
  const sigset_t& before() const noexcept { return before_; }

 private:
  sigset_t before_{};
  Descriptor handle_;
};

/// Ignores SIGPIPE in this process as long as it lives: a reader of our output that goes away (`tombolo run
/// ... | head`) must show as an error of write(2), not end us and with us all ranks.
class IgnoredPipeSignal {
 public:
  IgnoredPipeSignal() noexcept;
  ~IgnoredPipeSignal() { restore(); }
  IgnoredPipeSignal(const IgnoredPipeSignal&) = delete;
  IgnoredPipeSignal& operator=(const IgnoredPipeSignal&) = delete;
  /// What was before; in a child before exec, which would pass the ignoring on.
  void restore() const noexcept;

 private:
  struct sigaction before_ {};
};

}  // namespace tombolo::tools
