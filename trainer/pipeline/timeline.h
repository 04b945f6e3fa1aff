// Records what each rank did when: bars for a Chrome trace, and the seconds that each kind of activity took.
#pragma once

#include <array>
#include <map>
#include <mutex>
#include <string>
#include <string_view>
#include <vector>

#include "base/clock.h"
#include "base/json.h"
#include "planner/simulate/pass_clock.h"

namespace tombolo::trainer {

/// The activity under which a bar's time is counted.
enum class Activity {
  kForward,
  kBackward,
  kUpdate,  ///< everything that the optimizer does: clearing gradients, their norm, the parameters
  kWait,    ///< the computing thread waits for another rank
  kReduce,  ///< the helper thread reduces gradients
};
/// Seconds by activity.
using ActivitySeconds = std::array<double, 5>;

struct StepSeconds {
  ActivitySeconds elapsed{};
  ActivitySeconds processor{};  ///< the part of `elapsed` in which the thread had a core
  /// processor time of the whole process that was spent neither in passes nor in the update
  double sending = 0;
};

/// What travels between neighbouring stages: a row of the trace.
struct Transfer {
  enum class Direction { kFrom, kTo };
  Direction direction;
  int peer;               ///< rank
  std::string_view what;  ///< "activation" or "gradient"; static lifetime
  int micro_batch;
};

/// Records one rank's bars, and adds up their times by activity and step. add() may be called from any
/// thread; the rest only while no other thread is in add().
class Timeline {
 public:
  /// `start` is the zero of the time axis.
  explicit Timeline(TimePoint start) : start_(start) {}

  /// Keeps the bars of steps in [first, first + count); times are added up for all steps.
  void keep(int first, int count) noexcept;
  /// Keeps times for each step as well.
  void keep_steps() noexcept { keeps_steps_ = true; }
  /// Whether anything is kept of which the times of passes are a part.
  bool wants_passes() const noexcept { return count_ > 0 || keeps_steps_; }
  /// By which clock the bars of passes and updates are; what else there is, is always by the host's.
  void set_pass_clock(planner::PassClock clock) noexcept { pass_clock_ = clock; }
  planner::PassClock pass_clock() const noexcept { return pass_clock_; }
  /// To be called before a step's first bar; steps come in order.
  void set_step(int step) noexcept;
  /// Adds a bar. `name` must have static lifetime; `processor` is the seconds for which the thread ran
  /// meanwhile.
  void add(std::string_view name, Activity activity, int micro_batch, TimePoint begin, TimePoint end,
           double processor);
  /// Adds a bar of a device, which may belong to a step before the current one: its time is known late.
  void add_device_bar(int step, std::string_view name, Activity activity, int micro_batch, TimePoint begin,
                      TimePoint end);
  /// A transfer under way from `begin` to `end`, as this rank saw it.
  void add_transfer(const Transfer& transfer, TimePoint begin, TimePoint end);
  /// The computing thread stood still for `seconds` because of a transfer from or to this rank.
  void add_wait(int peer, double seconds);
  /// Counts as sending the processor time that the process used since set_step() outside passes and updates.
  void end_step();

  /// The sum over all steps.
  double seconds(Activity activity) const noexcept;
  /// Seconds waited for transfers, by the other rank, over all steps.
  const std::map<int, double>& waits() const noexcept { return waits_; }
  /// One entry per step made, which need not begin with step 0; empty unless keep_steps() was called before
  /// the first.
  const std::vector<StepSeconds>& steps() const noexcept { return steps_; }
  /// Chrome trace events: one process per rank, one thread that computes and one that reduces; transfers are
  /// asynchronous events, which viewers show in rows by name ("activation from rank 0"). Where passes are by
  /// the device's clock, they are a row of the device, and a third one is that of the thread that waits.
  Json events(int rank, const std::string& label) const;

 private:
  struct Bar {
    std::string_view name;
    Activity activity;
    int step;
    int micro_batch;
    TimePoint begin, end;
  };
  struct TransferBar {
    Transfer transfer;
    int step;
    TimePoint begin, end;
  };
  void add_to(const Bar& bar, double processor);
  int row_of(Activity activity) const noexcept;
  bool kept(int step) const noexcept { return step >= first_ && step < first_ + count_; }

  std::mutex mutex_;
  TimePoint start_;
  int first_ = 0, count_ = 0, step_ = 0;
  std::vector<Bar> bars_;
  std::vector<TransferBar> transfers_;
  std::map<int, double> waits_;
  ActivitySeconds seconds_{};
  bool keeps_steps_ = false;
  planner::PassClock pass_clock_ = planner::PassClock::kHost;
  std::vector<StepSeconds> steps_;
  double process_began_ = 0;  ///< processor time of the process when the step began
};

/// The seconds for which the calling thread has had a core.
double thread_processor_seconds() noexcept;

/// Adds a bar that lasts from its construction to its destruction.
class Timed {
 public:
  Timed(Timeline& timeline, std::string_view name, Activity activity, int micro_batch = -1)
      : timeline_(timeline),
        name_(name),
        activity_(activity),
        micro_batch_(micro_batch),
        ran_(thread_processor_seconds()),
        begin_(Clock::steady().now()) {}
  ~Timed() {
    const TimePoint end = Clock::steady().now();
    timeline_.add(name_, activity_, micro_batch_, begin_, end, thread_processor_seconds() - ran_);
  }
  Timed(const Timed&) = delete;
  Timed& operator=(const Timed&) = delete;

 private:
  Timeline& timeline_;
  std::string_view name_;
  Activity activity_;
  int micro_batch_;
  double ran_;
  TimePoint begin_;
};

}  // namespace tombolo::trainer
