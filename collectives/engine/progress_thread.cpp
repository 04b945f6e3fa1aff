#include "collectives/engine/progress_thread.h"

#include <sys/eventfd.h>

#include <cerrno>
#include <system_error>
#include <utility>

#include "base/error.h"
#include "transport/kernel.h"

namespace tombolo::collectives {

ProgressThread::ProgressThread(Job job)
    : job_(std::move(job)), wakeup_(transport::kernel().eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)) {
  if (!wakeup_) fail(Cause::kSystem, "TOMBOLO_PROGRESS=thread: eventfd: {}", errno_text(errno));
  try {
    thread_ = std::thread([this] { run(); });
  } catch (const std::system_error& error) {
    fail(Cause::kSystem, "TOMBOLO_PROGRESS=thread: {}", error.what());
  }
}

ProgressThread::~ProgressThread() {
  {
    const std::lock_guard lock(mutex_);
    ending_ = true;
    wanted_ = true;
    if (state_ == State::kAsleep) wake();
  }
  changed_.notify_all();
  thread_.join();
}

void ProgressThread::wake() noexcept {
  const std::uint64_t one = 1;
  (void)transport::kernel().write(wakeup_.get(), &one, sizeof(one));
}

void ProgressThread::enter() {
  std::unique_lock lock(mutex_);
  ++calls_;
  wanted_ = true;
  if (state_ == State::kAsleep) wake();
  changed_.wait(lock, [this] { return state_ == State::kWaiting || state_ == State::kEnded; });
}

void ProgressThread::leave() {
  {
    const std::lock_guard lock(mutex_);
    --calls_;
    wanted_ = calls_ > 0 || ending_;
  }
  changed_.notify_all();
}

void ProgressThread::run() {
  std::unique_lock lock(mutex_);
  for (;;) {
    changed_.wait(lock, [this] { return ending_ || (calls_ == 0 && job_.busy()); });
    if (ending_) break;
    state_ = State::kWorking;
    lock.unlock();
    const Outcome outcome = job_.work(*this);
    lock.lock();
    state_ = State::kWaiting;
    changed_.notify_all();
    if (outcome == Outcome::kEnded) break;
  }
  state_ = State::kEnded;
  changed_.notify_all();
}

void ProgressThread::sleep(const std::function<void()>& body) {
  {
    const std::lock_guard lock(mutex_);
    if (wanted_) return;
    state_ = State::kAsleep;
  }
  body();
  const std::lock_guard lock(mutex_);
  state_ = State::kWorking;
  std::uint64_t count = 0;
  (void)transport::kernel().read(wakeup_.get(), &count, sizeof(count));
}

void ProgressThread::append_wait_handle(std::vector<pollfd>& handles) const {
  handles.push_back({wakeup_.get(), POLLIN, 0});
}

}  // namespace tombolo::collectives
