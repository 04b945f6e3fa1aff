#include "transport/bootstrap/background_progress.h"

#include <pthread.h>
#include <signal.h>

#include <algorithm>
#include <system_error>
#include <utility>

namespace tombolo::transport::bootstrap {

BackgroundProgress::~BackgroundProgress() {
  if (generation_ != fork_generation()) {
    if (thread_.joinable()) thread_.detach();
    return;
  }
  {
    const std::lock_guard lock(mutex_);
    stop_ = true;
  }
  changed_.notify_all();
  if (thread_.joinable()) thread_.join();
}

void BackgroundProgress::add(Progressable* one) {
  const std::lock_guard lock(mutex_);
  progressables_.push_back(one);
  if (drive_ == Drive::kOwner) return;
  if (thread_.joinable()) {
    if (progressables_.size() == 1) changed_.notify_all();
    return;
  }
  // The thread takes no signals: they are meant for the program's own threads.
  sigset_t all, before;
  sigfillset(&all);
  pthread_sigmask(SIG_SETMASK, &all, &before);
  try {
    thread_ = std::thread([this] { run(); });
    pthread_setname_np(thread_.native_handle(), "tombolo-bg");
  } catch (const std::system_error&) {
    // Without the thread, connections move only inside their owners' calls.
  }
  pthread_sigmask(SIG_SETMASK, &before, nullptr);
}

void BackgroundProgress::wake() {
  // Without the lock the thread might just have checked for work and not be asleep yet, and miss the notice.
  const std::lock_guard lock(mutex_);
  woken_ = true;
  changed_.notify_all();
}

void BackgroundProgress::remove(Progressable* one) {
  const std::lock_guard lock(mutex_);
  std::erase(progressables_, one);
}

std::optional<TimePoint> BackgroundProgress::round() {
  const std::lock_guard lock(mutex_);
  return round_locked();
}

std::optional<TimePoint> BackgroundProgress::round_locked() {
  const bool woken = std::exchange(woken_, false);
  const bool more = each_round_();
  if (progressables_.empty() && !more) return std::nullopt;
  const TimePoint now = clock_->now();
  // wake() is for `each_round` alone: a thousand connections that close one after the other would have all
  // that are left called each time.
  if (!woken || now >= due_) {
    Duration wait = more ? kSoon : kIdle;
    for (Progressable* one : progressables_) wait = std::min(wait, one->progress_in_background());
    due_ = now + wait;
  } else if (more) {
    due_ = std::min(due_, now + kSoon);
  }
  return due_;
}

void BackgroundProgress::run() {
  std::unique_lock lock(mutex_);
  while (!stop_) {
    if (const auto due = round_locked())
      changed_.wait_for(lock, *due - clock_->now(), [this] { return stop_ || woken_; });
    else
      changed_.wait(lock, [this] { return stop_ || woken_ || !progressables_.empty(); });
  }
}

}  // namespace tombolo::transport::bootstrap
