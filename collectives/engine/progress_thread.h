// A thread that makes progress on a communicator whose caller does something else. It and the caller take
// turns: it works while no call is being made, and lets go of the communicator as soon as one is.
#pragma once

#include <poll.h>

#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <functional>
#include <mutex>
#include <thread>
#include <vector>

#include "transport/descriptor.h"

namespace tombolo::collectives {

class ProgressThread {
 public:
  enum class Outcome : std::uint8_t {
    kAgain,  ///< there may be more to do
    kEnded,  ///< there will never be
  };
  struct Job {
    /// Whether there is something to do. Called between two calls, under the lock that they take.
    std::function<bool()> busy;
    /// Makes progress until there is nothing to do or wanted() is true. Must not throw. It sleeps by
    /// sleep() alone.
    std::function<Outcome(ProgressThread&)> work;
  };

  /// Throws kSystem where there is no thread or descriptor left. The job's functions outlive this object.
  explicit ProgressThread(Job job);
  /// Waits until the thread has let go, and ends it.
  ~ProgressThread();
  ProgressThread(const ProgressThread&) = delete;
  ProgressThread& operator=(const ProgressThread&) = delete;

  /// Begins a call: returns once the thread has let go, which it does within one turn of progress; one that
  /// sleeps is woken. Any thread but this one; not nested.
  void enter();
  /// Ends it.
  void leave();

  /// For the job: whether a call waits, or the thread is to end.
  bool wanted() const noexcept { return wanted_.load(std::memory_order_relaxed); }
  /// For the job: calls `body`, which sleeps until one of its descriptors is ready, append_wait_handle()'s
  /// among them; does nothing where wanted().
  void sleep(const std::function<void()>& body);
  /// The descriptor by which a call wakes a sleeping thread.
  void append_wait_handle(std::vector<pollfd>& handles) const;

 private:
  enum class State : std::uint8_t { kWaiting, kWorking, kAsleep, kEnded };

  void run();
  void wake() noexcept;

  Job job_;
  transport::Descriptor wakeup_;  // eventfd
  std::mutex mutex_;              // of all below
  std::condition_variable changed_;
  State state_ = State::kWaiting;
  int calls_ = 0;
  bool ending_ = false;
  std::atomic<bool> wanted_{false};  // calls_ > 0 or ending_
  std::thread thread_;
};

}  // namespace tombolo::collectives
