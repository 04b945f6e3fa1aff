// One thread that looks after connections whose owner makes no calls.
//
// A connection moves inside its owner's calls. But an owner that got all it wanted may make none for long,
// while its peer still needs something: an acknowledgement for which the socket had no room, a broken stream
// made anew, chunks sent once more. Without somebody to do that, one lost stream would hang both.
#pragma once

#include <condition_variable>
#include <functional>
#include <mutex>
#include <thread>
#include <vector>

#include "base/clock.h"

namespace tombolo::transport::bootstrap {

/// What is looked after.
class Progressable {
 public:
  /// Called by the caretaker's thread now and then. Returns after how long it wants to be called again.
  virtual Duration progress_in_background() noexcept = 0;

 protected:
  ~Progressable() = default;
};

/// Sleeps unless there are wards; then calls each some twenty times a second, or as often as it asks for, and
/// twice a second where no ward wants more. Thread-safe.
class BackgroundProgress {
 public:
  /// How often a ward is called that has nothing to do, and one that may have.
  static constexpr Duration kIdle = std::chrono::milliseconds(500);
  static constexpr Duration kSoon = std::chrono::milliseconds(50);

  /// `each_round` is called before the wards; true where it wants to be called again also without any.
  explicit BackgroundProgress(std::function<bool()> each_round) : each_round_(std::move(each_round)) {}
  ~BackgroundProgress();
  BackgroundProgress(const BackgroundProgress&) = delete;
  BackgroundProgress& operator=(const BackgroundProgress&) = delete;

  /// Starts the thread with the first. A process out of threads goes without one.
  void add(Progressable* one);
  /// There is something to do in each round.
  void wake();
  /// Afterwards it is called no more; waits for a call that is under way.
  void remove(Progressable* one);

 private:
  void run();

  std::function<bool()> each_round_;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::vector<Progressable*> progressables_;
  bool stop_ = false;
  std::thread thread_;
};

}  // namespace tombolo::transport::bootstrap
