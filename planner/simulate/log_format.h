// The formats of training logs: how each framework prints its steps. A format is a function of one line, in a
// file of its own, which names the source and the release that print it.
#pragma once

#include <span>
#include <string_view>

#include "planner/model/framework.h"
#include "planner/simulate/log_line.h"

namespace tombolo::planner {

struct LogFormat {
  std::string_view title;                 ///< what prints it, as people write it
  std::string_view mark;                  ///< what each of its lines of steps has
  std::string_view printed;               ///< where and when these lines are printed, for who looks for them
  std::span<const Framework> frameworks;  ///< whose runs have such lines
  LogLine (*read)(std::string_view line) = nullptr;  ///< the line without colours and line end
};

extern const LogFormat kMegatronLog, kNeMoLog, kTorchTitanLog, kDeepSpeedPipelineLog, kDeepSpeedTimerLog;

}  // namespace tombolo::planner
