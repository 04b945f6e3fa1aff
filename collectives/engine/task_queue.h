// Tasks of one runner, carried out one after the other in the order in which they came.
#pragma once

#include <cstdint>
#include <deque>
#include <utility>

namespace tombolo::collectives {

/// `Runner` carries out one task at a time: start(), progress(), finished(), clear(). One thread at a time.
template <typename Runner, typename Task>
class TaskQueue {
 public:
  /// The runner must outlive the queue.
  explicit TaskQueue(Runner& runner) : runner_(runner) {}

  /// Returns the task's number, from 1. What the task refers to lives until it is done, or clear().
  std::uint64_t push(Task task) {
    if (idle()) {
      runner_.start(std::move(task));
    } else {
      waiting_.push_back(std::move(task));
    }
    return ++pushed_;
  }
  bool idle() const noexcept { return done_ == pushed_; }
  bool done(std::uint64_t number) const noexcept { return done_ >= number; }
  /// Does what is possible now; true if that was anything.
  bool progress() {
    if (idle()) return false;
    bool moved = runner_.progress();
    while (!idle() && runner_.finished()) {
      moved = true;
      ++done_;
      if (waiting_.empty()) continue;
      runner_.start(std::move(waiting_.front()));
      waiting_.pop_front();
    }
    return moved;
  }
  /// Drops all tasks; none of them will be done.
  void clear() noexcept {
    runner_.clear();
    waiting_.clear();
    pushed_ = done_;
  }

 private:
  Runner& runner_;
  std::deque<Task> waiting_;  // behind the one that the runner has
  std::uint64_t pushed_ = 0, done_ = 0;
};

}  // namespace tombolo::collectives
