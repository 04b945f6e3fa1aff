#include "transport/measure/round_barrier.h"

namespace tombolo::transport::measure {

RoundBarrier::Member::~Member() {
  const std::lock_guard lock(barrier_.mutex_);
  --barrier_.members_;
  if (finished_) --barrier_.finished_;
  if (barrier_.members_ != 0 && barrier_.arrived_ == barrier_.members_) barrier_.begin_round();
  barrier_.changed_.notify_all();
}

bool RoundBarrier::Member::arrive_and_wait(bool another) {
  std::unique_lock lock(barrier_.mutex_);
  barrier_.another_ |= another;
  const std::size_t round = barrier_.round_;
  if (++barrier_.arrived_ == barrier_.members_) barrier_.begin_round();
  barrier_.changed_.notify_all();
  barrier_.changed_.wait(lock, [&] { return barrier_.round_ != round; });
  finished_ = false;
  return barrier_.another_of_last_;
}

void RoundBarrier::Member::finish() {
  const std::lock_guard lock(barrier_.mutex_);
  finished_ = true;
  ++barrier_.finished_;
  barrier_.changed_.notify_all();
}

bool RoundBarrier::Member::all_finished() const {
  const std::lock_guard lock(barrier_.mutex_);
  return barrier_.finished_ == barrier_.members_;
}

bool RoundBarrier::Member::wait_until_others_arrive() {
  std::unique_lock lock(barrier_.mutex_);
  barrier_.changed_.wait(lock, [&] { return barrier_.arrived_ + 1 == barrier_.members_; });
  return barrier_.another_;
}

void RoundBarrier::Member::wait_until_others_finish() {
  std::unique_lock lock(barrier_.mutex_);
  barrier_.changed_.wait(lock, [&] { return barrier_.finished_ + 1 == barrier_.members_; });
}

/// The caller holds the mutex.
void RoundBarrier::begin_round() {
  another_of_last_ = another_;
  another_ = false;
  arrived_ = finished_ = 0;
  ++round_;
}

}  // namespace tombolo::transport::measure
