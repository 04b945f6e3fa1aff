#include "transport/bootstrap/background_progress.h"

#include <pthread.h>
#include <signal.h>

#include <algorithm>
#include <exception>
#include <utility>

namespace tombolo::transport::bootstrap {

BackgroundProgress::~BackgroundProgress() {
  end();
  if (generation_ == fork_generation()) return;
  [[maybe_unused]] auto* const stays = threads_.release();
}

void BackgroundProgress::end() noexcept {
  if (generation_ != fork_generation()) return;
  {
    const std::lock_guard lock(mutex_);
    stop_ = true;
  }
  changed_.notify_all();
  if (thread_.joinable()) thread_.join();
}

void BackgroundProgress::add(Progressable* one) {
  const std::lock_guard lock(mutex_);
  entries_.emplace(next_key_++, Entry{one});
  start();
  if (entries_.size() == 1) changed_.notify_all();
}

void BackgroundProgress::start() noexcept {
  if (drive_ == Drive::kOwner || stop_ || thread_.joinable()) return;
  // The thread takes no signals: they are meant for the program's own threads.
  sigset_t all, before;
  sigfillset(&all);
  pthread_sigmask(SIG_SETMASK, &all, &before);
  try {
    thread_ = std::thread([this] { run(); });
    pthread_setname_np(thread_.native_handle(), "tombolo-bg");
  } catch (const std::exception&) {
    // The process has no thread or no memory left for it. Without it, connections move only inside their
    // owners' calls; the next call of this tries again.
  }
  pthread_sigmask(SIG_SETMASK, &before, nullptr);
}

void BackgroundProgress::wake() {
  // Without the lock the thread might just have checked for work and not be asleep yet, and miss the notice.
  const std::lock_guard lock(mutex_);
  woken_ = true;
  start();
  changed_.notify_all();
}

void BackgroundProgress::remove(Progressable* one) {
  std::unique_lock lock(mutex_);
  std::erase_if(entries_, [one](const auto& entry) { return entry.second.one == one; });
  returned_.wait(lock, [&] { return called_ != one; });
}

/// Calls each that is due once, without the lock, so that nobody waits for the others. Returns when the next
/// is due.
TimePoint BackgroundProgress::call_those_due(std::unique_lock<std::mutex>& lock) {
  TimePoint next = TimePoint::max();
  for (auto at = entries_.begin(); at != entries_.end() && !stop_;) {
    const std::uint64_t key = at->first;
    if (at->second.due <= clock_->now()) {
      Progressable* one = at->second.one;
      called_ = one;
      lock.unlock();
      const Duration again = one->progress_in_background();
      lock.lock();
      called_ = nullptr;
      returned_.notify_all();
      at = entries_.find(key);
      if (at != entries_.end()) at->second.due = clock_->now() + std::min(again, kIdle);
    }
    if (at != entries_.end()) next = std::min(next, at->second.due);
    at = entries_.upper_bound(key);
  }
  return next;
}

TimePoint BackgroundProgress::round(std::unique_lock<std::mutex>& lock) {
  woken_ = false;
  lock.unlock();
  const bool more = each_round_();
  lock.lock();
  const TimePoint next = call_those_due(lock);
  return more ? std::min(next, clock_->now() + kSoon) : next;
}

TimePoint BackgroundProgress::round() {
  std::unique_lock lock(mutex_);
  return round(lock);
}

void BackgroundProgress::run() {
  std::unique_lock lock(mutex_);
  while (!stop_) {
    const TimePoint next = round(lock);
    if (next == TimePoint::max())
      changed_.wait(lock, [this] { return stop_ || woken_ || !entries_.empty(); });
    else
      changed_.wait_until(lock, next, [this] { return stop_ || woken_; });
  }
}

}  // namespace tombolo::transport::bootstrap
