#include "tools/process/ending_signals.h"

#include <sys/signalfd.h>
#include <unistd.h>

#include <cerrno>

#include "base/error.h"

namespace tombolo::tools {

bool is_ignored(int signal_number) noexcept {
  struct sigaction now {};
  return ::sigaction(signal_number, nullptr, &now) == 0 && now.sa_handler == SIG_IGN;
}

EndingSignals::EndingSignals() {
  sigset_t set;
  ::sigemptyset(&set);
  for (int each : {SIGINT, SIGTERM, SIGHUP, SIGUSR1}) {
    // The kernel would queue an ignored signal too while it is blocked.
    if (!is_ignored(each)) ::sigaddset(&set, each);
  }
  handle_ = Descriptor(::signalfd(-1, &set, SFD_CLOEXEC | SFD_NONBLOCK));
  if (!handle_) fail_errno(errno, "signalfd");
  ::pthread_sigmask(SIG_BLOCK, &set, &before_);
}

EndingSignals::~EndingSignals() {
  ::pthread_sigmask(SIG_SETMASK, &before_, nullptr);
}

int EndingSignals::next() const noexcept {
  signalfd_siginfo info{};
  return ::read(handle_.get(), &info, sizeof info) == sizeof info ? static_cast<int>(info.ssi_signo) : 0;
}

IgnoredPipeSignal::IgnoredPipeSignal() noexcept {
  struct sigaction ignore {};
  ignore.sa_handler = SIG_IGN;
  ::sigaction(SIGPIPE, &ignore, &before_);
}

void IgnoredPipeSignal::restore() const noexcept {
  ::sigaction(SIGPIPE, &before_, nullptr);
}

}  // namespace tombolo::tools
