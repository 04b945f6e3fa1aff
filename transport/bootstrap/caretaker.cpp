#include "transport/bootstrap/caretaker.h"

#include <pthread.h>
#include <signal.h>

#include <algorithm>
#include <system_error>

namespace tombolo::transport::bootstrap {

Caretaker::~Caretaker() {
  {
    const std::lock_guard lock(mutex_);
    stop_ = true;
  }
  changed_.notify_all();
  if (thread_.joinable()) thread_.join();
}

void Caretaker::add(Ward* ward) {
  const std::lock_guard lock(mutex_);
  wards_.push_back(ward);
  if (thread_.joinable()) {
    if (wards_.size() == 1) changed_.notify_all();
    return;
  }
  // Signals are for the program's own threads.
  sigset_t all, before;
  sigfillset(&all);
  pthread_sigmask(SIG_SETMASK, &all, &before);
  try {
    thread_ = std::thread([this] { run(); });
    pthread_setname_np(thread_.native_handle(), "tombolo-care");
  } catch (const std::system_error&) {
    // Connections then move only inside their owners' calls.
  }
  pthread_sigmask(SIG_SETMASK, &before, nullptr);
}

void Caretaker::wake() {
  const std::lock_guard lock(mutex_);  // else the thread might have looked already, and not be asleep yet
  changed_.notify_all();
}

void Caretaker::remove(Ward* ward) {
  const std::lock_guard lock(mutex_);
  std::erase(wards_, ward);
}

void Caretaker::run() {
  std::unique_lock lock(mutex_);
  while (!stop_) {
    const bool more = each_round_();
    if (wards_.empty() && !more) {
      changed_.wait(lock);
      continue;
    }
    Duration wait = more ? kSoon : kIdle;
    for (Ward* ward : wards_) wait = std::min(wait, ward->care());
    changed_.wait_for(lock, wait, [this] { return stop_; });
  }
}

}  // namespace tombolo::transport::bootstrap
