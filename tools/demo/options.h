// What the user asked the demo for.
#pragma once

#include <optional>
#include <string>

#include "planner/job.h"

namespace tombolo::tools::demo {

struct Options {
  std::string data;  ///< file of text; empty = the King James Bible of Debian's package bible-kjv
  std::string out = "build/demo";
  int compare_steps = 14;               ///< of each of the three runs
  int steps = 200;                      ///< of the long run
  std::optional<double> seconds_limit;  ///< for everything; see limit()
  std::string emulation_mode = "auto";
  bool more_plans = false;  ///< also hold the predictions for five other plans against measurement
  bool json = false;

  /// Of the compared steps: left out of the medians, because the first ones open connections and warm caches.
  int warm_up() const noexcept { return compare_steps > 6 ? 4 : 1; }
  double limit() const noexcept { return seconds_limit.value_or(more_plans ? 1800 : 600); }
  /// Throws kInvalidUsage naming the option.
  void check() const;
};

/// What is trained, the same in all runs.
planner::Job demo_job();

}  // namespace tombolo::tools::demo
