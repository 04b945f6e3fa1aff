// Turns SIGINT, SIGTERM, SIGHUP and SIGUSR1 into a descriptor for poll(2), and ignores SIGPIPE.
#pragma once

#include <signal.h>

#include "tools/process/subprocess.h"

namespace tombolo::tools {

/// Whether this process ignores the signal. What was ignored when a program began stays ignored in it and in
/// the programs that it starts: nohup(1) asks for that with SIGHUP, and shells with SIGINT for what a script
/// runs in the background.
bool is_ignored(int signal_number) noexcept;

/// While it lives, those of the four signals that were not ignored are blocked for the calling thread and are
/// read from a descriptor instead. They must be blocked in the other threads of the process too, since a
/// signal goes to any thread that does not block it.
class EndingSignals {
 public:
  /// Throws kSystem where the kernel gives no descriptor.
  EndingSignals();
  ~EndingSignals();
  EndingSignals(const EndingSignals&) = delete;
  EndingSignals& operator=(const EndingSignals&) = delete;

  /// A descriptor that is readable when a signal has come.
  int handle() const noexcept { return handle_.get(); }
  /// The number of the next signal, or 0.
  int next() const noexcept;
  /// The thread's earlier signal mask, for children.
  const sigset_t& before() const noexcept { return before_; }

 private:
  sigset_t before_{};
  Descriptor handle_;
};

/// Ignores SIGPIPE in this process while an object lives. When the reader of our output ends (`tombolo run
/// ... | head`), write(2) must return an error, because the signal would end this process and all ranks with
/// it.
class IgnoredPipeSignal {
 public:
  IgnoredPipeSignal() noexcept;
  ~IgnoredPipeSignal() { restore(); }
  IgnoredPipeSignal(const IgnoredPipeSignal&) = delete;
  IgnoredPipeSignal& operator=(const IgnoredPipeSignal&) = delete;
  /// Restores the previous handler. To be called in a child before exec, because the new program would
  /// otherwise ignore the signal too.
  void restore() const noexcept;

 private:
  struct sigaction before_ {};
};

}  // namespace tombolo::tools
