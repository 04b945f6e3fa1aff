// What each rank did when: bars for a Chrome trace, and sums of time computed and waited.
#pragma once

#include <mutex>
#include <string>
#include <string_view>
#include <vector>

#include "base/clock.h"
#include "base/json.h"

namespace tombolo::trainer {

/// What a bar is counted as.
enum class Activity {
  kCompute,  ///< forward, backward, update
  kWait,     ///< the computing thread stands still for another rank
  kReduce,   ///< the helper thread reduces gradients
};

/// Records one rank's bars, and adds up their times by activity. add() may be called from any thread; the
/// rest only while no other thread is in add().
class Timeline {
 public:
  /// `start` is zero on the time axis.
  explicit Timeline(TimePoint start) : start_(start) {}

  /// Bars are kept for steps in [first, first + count); times are added up for all.
  void keep(int first, int count) noexcept;
  void set_step(int step) noexcept;
  /// `name` has static lifetime.
  void add(std::string_view name, Activity activity, int micro_batch, TimePoint begin, TimePoint end);

  double seconds(Activity activity) const noexcept;
  /// Chrome trace events: one process per rank, one thread that computes and one that reduces.
  Json events(int rank, const std::string& label) const;

 private:
  struct Bar {
    std::string_view name;
    Activity activity;
    int step;
    int micro_batch;
    TimePoint begin, end;
  };
  std::mutex mutex_;
  TimePoint start_;
  int first_ = 0, count_ = 0, step_ = 0;
  std::vector<Bar> bars_;
  double seconds_[3] = {0, 0, 0};
};

/// Adds a bar from construction to destruction.
class Timed {
 public:
  Timed(Timeline& timeline, std::string_view name, Activity activity, int micro_batch = -1)
      : timeline_(timeline),
        name_(name),
        activity_(activity),
        micro_batch_(micro_batch),
        begin_(Clock::steady().now()) {}
  ~Timed() { timeline_.add(name_, activity_, micro_batch_, begin_, Clock::steady().now()); }
  Timed(const Timed&) = delete;
  Timed& operator=(const Timed&) = delete;

 private:
  Timeline& timeline_;
  std::string_view name_;
  Activity activity_;
  int micro_batch_;
  TimePoint begin_;
};

}  // namespace tombolo::trainer
