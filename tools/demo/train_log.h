// Reads the files that `tombolo train` writes.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "tools/demo/report.h"

namespace tombolo::tools::demo {

struct TrainLog {
  std::vector<double> loss, step_seconds;  ///< by step
};

/// Parses JSON lines with `step`, `loss` and `step_seconds`, in the order of the steps. Throws kInvalidUsage
/// naming the line.
TrainLog parse_train_log(std::string_view text, const std::string& source);

/// Parses one step of every rank from `tombolo train --timeline`: computing and reducing, without waiting.
/// Times count from the earliest bar's begin. Throws kInvalidUsage.
std::vector<planner::Span> parse_timeline(std::string_view text, const std::string& source);

/// What passed between NICs, by hosts and NIC, from `tombolo train --traffic`. Throws kInvalidUsage.
std::vector<LinkUse> parse_traffic(std::string_view text, const std::string& source);

/// `text` with every byte but printable ASCII and line ends replaced by '?': for a sample, whose bytes need
/// not be UTF-8.
std::string only_ascii(std::string_view text);

/// The whole content of a file. Throws kSystem.
std::string read_file(const std::string& path);

}  // namespace tombolo::tools::demo
