// One thread that moves connections whose owner makes no calls.
//
// A connection moves inside its owner's calls. But an owner that got all it wanted may make none for long,
// while its peer still needs something: an acknowledgement for which the socket had no room, a broken stream
// opened again, chunks sent once more. Without this thread one lost stream would hang both.
#pragma once

#include <condition_variable>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <thread>

#include "base/clock.h"
#include "transport/kernel.h"

namespace tombolo::transport::bootstrap {

/// Something that the background thread can move.
class Progressable {
 public:
  /// Called by the background thread. Returns after how long it wants to be called again.
  virtual Duration progress_in_background() noexcept = 0;

 protected:
  ~Progressable() = default;
};

/// Sleeps while there is nothing to progress; else calls each object as often as it asks for, and at least
/// twice a second. Thread-safe.
class BackgroundProgress {
 public:
  /// What progress_in_background() returns where there is nothing to do, and where there may be soon.
  static constexpr Duration kIdle = std::chrono::milliseconds(500);
  static constexpr Duration kSoon = std::chrono::milliseconds(50);

  /// Who makes the rounds: a thread of this object's, or its owner by calls of round().
  enum class Drive { kThread, kOwner };

  /// `each_round` is called at the beginning of each round; true where it wants another round soon even if
  /// nothing was added. It throws nothing.
  explicit BackgroundProgress(std::function<bool()> each_round, const Clock& clock = Clock::steady(),
                              Drive drive = Drive::kThread)
      : each_round_(std::move(each_round)), clock_(&clock), drive_(drive) {}
  ~BackgroundProgress();
  BackgroundProgress(const BackgroundProgress&) = delete;
  BackgroundProgress& operator=(const BackgroundProgress&) = delete;

  /// Starts the thread with the first object. Where the process cannot start another thread, it does without.
  void add(Progressable* one);
  /// Begins a round at once, since `each_round` has something to do; the others are called when they are due.
  void wake();
  /// Removes the object. When this returns it is called no more; it waits for a call of this object that is
  /// under way, but not for calls of others.
  void remove(Progressable* one);
  /// Ends the thread for good: when this returns, nothing is called any more. What is added later moves
  /// inside its owner's calls alone.
  void end() noexcept;
  /// One round. Returns when the next is due; TimePoint::max() where there is nothing to do until add() or
  /// wake().
  TimePoint round();

 private:
  TimePoint round(std::unique_lock<std::mutex>& lock);
  struct Entry {
    Progressable* one;
    TimePoint due{};
  };
  void start() noexcept;
  void run();
  TimePoint call_those_due(std::unique_lock<std::mutex>& lock);

  std::function<bool()> each_round_;
  const Clock* clock_;
  Drive drive_;
  unsigned generation_ = fork_generation();  // a forked child has no such thread
  /// The thread, and what it waits with. Those of a forked child's copy stay, since there is no such thread:
  /// their end would wait for it.
  struct Threads {
    std::mutex mutex;
    std::condition_variable changed, returned;
    std::thread thread;
  };
  std::unique_ptr<Threads> threads_ = std::make_unique<Threads>();
  std::mutex& mutex_ = threads_->mutex;
  std::condition_variable& changed_ = threads_->changed;
  std::map<std::uint64_t, Entry> entries_;  // by age
  std::uint64_t next_key_ = 0;
  const Progressable* called_ = nullptr;                    // without the lock
  std::condition_variable& returned_ = threads_->returned;  // from such a call
  bool stop_ = false;
  bool woken_ = false;  // a round is to begin at once
  std::thread& thread_ = threads_->thread;
};

}  // namespace tombolo::transport::bootstrap
