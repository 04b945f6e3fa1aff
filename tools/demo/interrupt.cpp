#include "tools/demo/interrupt.h"

#include <array>

#include "tools/process/ending_signals.h"

namespace tombolo::tools::demo {
namespace {

constexpr std::array<int, 3> kSignals{SIGINT, SIGTERM, SIGHUP};

// A signal handler can reach nothing but a global.
volatile std::sig_atomic_t g_signal = 0;

void note(int signal_number) {
  g_signal = signal_number;
}

}  // namespace

InterruptWatch::InterruptWatch() {
  g_signal = 0;
  struct sigaction action {};
  action.sa_handler = note;  // without SA_RESTART: a wait in progress returns early
  sigemptyset(&action.sa_mask);
  for (std::size_t i = 0; i < kSignals.size(); ++i) {
    sigaction(kSignals[i], is_ignored(kSignals[i]) ? nullptr : &action, &old_[i]);
  }
}

InterruptWatch::~InterruptWatch() {
  for (std::size_t i = 0; i < kSignals.size(); ++i) sigaction(kSignals[i], &old_[i], nullptr);
}

void InterruptWatch::check() const {
  if (g_signal != 0) throw Interrupted{g_signal};
}

}  // namespace tombolo::tools::demo
