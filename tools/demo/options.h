// What the user asked the demo for.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "planner/model/job.h"

namespace tombolo::tools::demo {

/// How the compared steps are shared out: in rounds, because a machine changes its speed from one moment to
/// the next.
struct Rounds {
  int rounds = 1;
  int steps = 2;    ///< of each run in each round
  int warm_up = 1;  ///< of them, those that do not count: the first ones open connections and warm caches
};

struct Options {
  std::string data;  ///< file of text; empty = the King James Bible of Debian's package bible-kjv
  std::string out = "build/demo";
  std::optional<int>
      compare_steps;  ///< of each of the three runs, all rounds together; absent = what the time allows
  std::optional<int> steps;  ///< of the long run; likewise
  /// Rates of Ethernet that can be emulated; bits per second.
  static constexpr double kSlowestEthernet = 1e5, kFastestEthernet = 5e10;
  std::optional<double> ethernet;       ///< bits per second; absent = by the computing speed
  std::optional<double> seconds_limit;  ///< for everything; see limit()
  std::string emulation_mode = "auto";
  bool more_plans = false;  ///< also hold the predictions for five other plans against measurement
  bool json = false;

  double limit() const noexcept { return seconds_limit.value_or(more_plans ? 1800 : 600); }
  /// `seconds`: what one step in each of the three ways takes together, as predicted.
  Rounds rounds(double seconds) const;
  /// Steps of the long run, of which each takes `seconds`.
  int long_run(double seconds) const;
  /// Throws kInvalidUsage naming the option.
  void check() const;
};

/// Rows of the micro-batches of all plans that are compared.
std::vector<int> micro_batches(const Options& options);

/// What is trained, the same in all runs.
planner::Job demo_job();

}  // namespace tombolo::tools::demo
