// Reading what `tombolo train` writes.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "tools/demo/report.h"

namespace tombolo::tools::demo {

struct TrainLog {
  std::vector<double> loss, step_seconds;  ///< by step
};

/// JSON lines with `step`, `loss` and `step_seconds`, in the order of the steps. Throws
/// kInvalidUsage naming the line.
TrainLog parse_train_log(std::string_view text, const std::string& source);

/// One step of every rank from `tombolo train --timeline`: computing and reducing, without waiting; times
/// from the earliest bar's begin. Throws kInvalidUsage.
std::vector<planner::Span> parse_timeline(std::string_view text, const std::string& source);

/// Bytes that no terminal or page should see, and those of broken UTF-8, become '?'.
std::string printable(std::string_view text);

/// The whole of a file. Throws kSystem.
std::string read_file(const std::string& path);

}  // namespace tombolo::tools::demo
