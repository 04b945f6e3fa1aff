// The options of the demo.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "planner/model/job.h"

namespace tombolo::tools::demo {

/// How the compared steps are divided into rounds. Rounds alternate between the runs, because the speed of a
/// machine changes from one moment to the next.
struct Rounds {
  int rounds = 1;
  int steps = 2;    ///< steps of each run in each round
  int warm_up = 1;  ///< the first of these steps open connections and warm caches, and do not count
};

struct Options {
  std::string data;  ///< file of text; empty = the King James Bible of Debian's package bible-kjv
  std::string out = "build/demo";
  /// Steps of each of the three runs, all rounds together; absent = as many as the time allows.
  std::optional<int> compare_steps;
  std::optional<int> steps;  ///< steps of the long run; absent = as many as the time allows
  /// Range of Ethernet rates that can be emulated; bits per second.
  static constexpr double kSlowestEthernet = 1e5, kFastestEthernet = 5e10;
  std::optional<double> ethernet;       ///< bits per second; absent = from the computing speed
  std::optional<double> seconds_limit;  ///< for everything; see limit()
  std::string emulation_mode = "auto";
  /// whether the predictions for five other plans are also compared with measurements
  bool more_plans = false;
  bool json = false;

  double limit() const noexcept { return seconds_limit.value_or(more_plans ? 1800 : 600); }
  /// `seconds`: the predicted sum of one step of each of the three runs.
  Rounds rounds(double seconds) const;
  /// The number of steps of the long run if each takes `seconds`.
  int long_run(double seconds) const;
  /// Throws kInvalidUsage naming the option.
  void check() const;
};

/// The micro-batches, in rows, of all plans that are compared.
std::vector<int> micro_batches(const Options& options);

/// The training job, the same in all runs.
planner::Job demo_job();

}  // namespace tombolo::tools::demo
