#include "probe/company.h"

namespace tombolo::probe {

Company::Member::~Member() {
  const std::lock_guard lock(company_.mutex_);
  --company_.members_;
  if (finished_) --company_.finished_;
  if (company_.members_ != 0 && company_.here_ == company_.members_) company_.release();
  company_.changed_.notify_all();
}

bool Company::Member::meet(bool another) {
  std::unique_lock lock(company_.mutex_);
  company_.another_ |= another;
  const std::size_t round = company_.round_;
  if (++company_.here_ == company_.members_) company_.release();
  company_.changed_.notify_all();
  company_.changed_.wait(lock, [&] { return company_.round_ != round; });
  finished_ = false;
  return company_.another_of_last_;
}

void Company::Member::finish() {
  const std::lock_guard lock(company_.mutex_);
  finished_ = true;
  ++company_.finished_;
  company_.changed_.notify_all();
}

bool Company::Member::all_finished() const {
  const std::lock_guard lock(company_.mutex_);
  return company_.finished_ == company_.members_;
}

bool Company::Member::others_meet() {
  std::unique_lock lock(company_.mutex_);
  company_.changed_.wait(lock, [&] { return company_.here_ + 1 == company_.members_; });
  return company_.another_;
}

void Company::Member::others_finish() {
  std::unique_lock lock(company_.mutex_);
  company_.changed_.wait(lock, [&] { return company_.finished_ + 1 == company_.members_; });
}

/// With the mutex held.
void Company::release() {
  another_of_last_ = another_;
  another_ = false;
  here_ = finished_ = 0;
  ++round_;
}

}  // namespace tombolo::probe
