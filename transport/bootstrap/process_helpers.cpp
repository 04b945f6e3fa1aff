#include "transport/bootstrap/process_helpers.h"

#include <unistd.h>

#include <atomic>
#include <mutex>
#include <span>

#include "transport/sockets/secret.h"

namespace tombolo::transport::bootstrap {
namespace {

std::uint64_t random_number() {
  std::uint64_t number = 0;
  random_bytes(std::as_writable_bytes(std::span(&number, 1)));
  return number;
}

/// The one of the process. Static objects end in the reverse order of their making, so that the thread ends
/// before whatever it may use that was made before it.
struct OfProcess {
  std::mutex mutex;
  std::weak_ptr<ProcessHelpers> current;
  std::atomic<pid_t> owner{0};

  ~OfProcess() {
    if (owner != ::getpid())
      return;  // a forked child has no such thread, and its copy of the lock may be held
    const std::lock_guard lock(mutex);
    if (const auto helpers = current.lock()) helpers->background_progress().end();
  }
};

}  // namespace

ProcessHelpers::ProcessHelpers(const Clock& clock)
    : ProcessHelpers(clock, Clock::steady(), BackgroundProgress::Drive::kThread) {}

ProcessHelpers::ProcessHelpers(Simulated, const Clock& clock)
    : ProcessHelpers(clock, clock, BackgroundProgress::Drive::kOwner) {}

ProcessHelpers::ProcessHelpers(const Clock& clock, const Clock& clock_of_closing,
                               BackgroundProgress::Drive drive)
    : clock_(&clock),
      process_(random_number()),
      refused_sockets_(kLongestRefused, clock_of_closing,
                       {kMostRefused, sockets::ClosingSockets::WhenFull::kCloseOldest}),
      closing_sockets_(Duration::max(), clock_of_closing),
      half_open_streams_(process_, registrations_, refused_sockets_, clock),
      background_progress_([this] { return progress_in_background(); }, clock_of_closing, drive) {}

std::shared_ptr<ProcessHelpers> ProcessHelpers::of_process() {
  static OfProcess of;
  const std::lock_guard lock(of.mutex);
  // A forked process has neither the thread nor the peers of its parent, whose objects it may hold all the
  // same.
  auto helpers = of.owner == ::getpid() ? of.current.lock() : nullptr;
  if (!helpers) {
    of.current = helpers = std::make_shared<ProcessHelpers>();
    of.owner = ::getpid();
  }
  return helpers;
}

void ProcessHelpers::progress() noexcept {
  if (half_open_streams_.progress()) background_progress_.wake();
}

bool ProcessHelpers::progress_in_background() noexcept {
  half_open_streams_.progress();
  const bool refused = refused_sockets_.progress();
  return closing_sockets_.progress() || refused || registrations_.may_be_asked(clock_->now());
}

}  // namespace tombolo::transport::bootstrap
